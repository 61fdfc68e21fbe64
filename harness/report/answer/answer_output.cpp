#include "harness/report/answer/answer_output.h"

#include <algorithm>
#include <utility>

namespace dpbench {
namespace {

bool compares(const AnswerGroup& group) {
  return std::count_if(group.choices.begin(), group.choices.end(),
                       [](const Choice& choice) { return choice.time != Standing::undecided; }) > 1;
}

std::string title_of(const AnswerGroup& group) { return group.setting + " · world " + std::to_string(group.world); }

// Returns the workload and world of a group of cases. The workload's name is the first part of AnswerGroup::setting.
std::string short_title(const AnswerGroup& group) {
  return group.setting.substr(0, group.setting.find(" · ")) + ", world " + std::to_string(group.world);
}

// Returns the short title of a group of cases, or the long title if another group has the same short title.
std::string distinct_title(const Answer& answer, const AnswerGroup& group) {
  const auto alike = std::count_if(answer.groups.begin(), answer.groups.end(),
                                   [&](const AnswerGroup& other) { return short_title(other) == short_title(group); });
  return alike > 1 ? title_of(group) : short_title(group);
}

std::vector<std::string> texts_of(const std::vector<Sentence>& sentences) {
  std::vector<std::string> texts;
  for (const Sentence& sentence : sentences) texts.push_back(sentence.text);
  return texts;
}

}  // namespace

bool compares_any(const Answer& answer) {
  const auto is_verdict = [](const Sentence& sentence) { return sentence.rule == tune_rule; };
  return std::any_of(answer.groups.begin(), answer.groups.end(), compares) ||
         std::any_of(answer.sentences.begin(), answer.sentences.end(), is_verdict);
}

std::vector<std::string> brief_lines(const Answer& answer, size_t most) {
  std::vector<const AnswerGroup*> groups;
  for (const AnswerGroup& group : answer.groups)
    if (compares(group)) groups.push_back(&group);
  std::stable_sort(groups.begin(), groups.end(),
                   [](const AnswerGroup* a, const AnswerGroup* b) { return a->world > b->world; });
  if (groups.size() > most) groups.resize(most);
  std::vector<std::string> lines;
  for (size_t i = 0; i < groups.size(); ++i) {
    // Divide the remaining output lines equally among the remaining groups of cases.
    const size_t share = (most - lines.size()) / (groups.size() - i),
                 count = std::min(share, groups[i]->sentences.size());
    for (size_t s = 0; s < count; ++s)
      lines.push_back((s == 0 ? distinct_title(answer, *groups[i]) + ": " : "  ") + groups[i]->sentences[s].text);
  }
  for (const Sentence& sentence : answer.sentences)
    if (lines.size() < most && sentence.rule != busy_rule) lines.push_back(sentence.text);
  return lines;
}

std::vector<AnswerSection> sections_of(const Answer& answer) {
  std::vector<AnswerSection> sections;
  for (const AnswerGroup& group : answer.groups)
    sections.push_back({.title = title_of(group), .sentences = texts_of(group.sentences)});
  if (!answer.sentences.empty()) sections.push_back({.title = "", .sentences = texts_of(answer.sentences)});
  return sections;
}

}  // namespace dpbench
