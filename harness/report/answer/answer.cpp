#include "harness/report/answer/answer.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/answer/members.h"
#include "harness/report/answer/rules.h"
#include "harness/report/figures/disturbance.h"
#include "harness/report/judge/tuning.h"

namespace dpbench {
namespace {

// Returns the standing (best, tied, behind or undecided) of each case of a group by `cost_ratio`, the cost of its first
// case divided by that of the second; a lower cost is better, and two cases without a ratio are not compared. A case
// that is compared with no other is undecided.
std::vector<Standing> standings(
    const std::vector<RankedCase>& members,
    const std::function<std::optional<Estimate>(const RankedCase&, const RankedCase&)>& cost_ratio) {
  std::vector<Standing> places;
  for (const RankedCase& member : members) {
    size_t others = 0, beaten = 0;
    bool behind = false;
    for (const RankedCase& other : members) {
      const auto ratio = &other == &member ? std::nullopt : cost_ratio(member, other);
      if (!ratio) continue;
      ++others;
      beaten += ratio->high < 1 ? 1 : 0;
      behind = behind || ratio->low > 1;
    }
    places.push_back(others == 0        ? Standing::undecided
                     : behind           ? Standing::behind
                     : beaten == others ? Standing::best
                                        : Standing::tied);
  }
  return places;
}

std::optional<Estimate> memory_ratio(const RankedCase& a, const RankedCase& b) {
  if (!memory_compares(a, b)) return std::nullopt;
  return quotient(*a.memory, *b.memory);
}

// True if `better` is preferable to `member`: faster without more memory, or with less memory without being slower.
// Differences within the intervals do not count. any_memory: true if at least two cases of the group can be compared by
// memory; `better` is then preferable only if its memory can be compared with that of `member`. false: only speed
// counts.
bool dominates(const RankedCase& better, const RankedCase& member, bool any_memory) {
  if (!better.speed || !member.speed) return false;
  if (!any_memory) return faster(better, member);
  if (!memory_compares(better, member)) return false;
  const bool more = above(*better.memory, *member.memory), less = above(*member.memory, *better.memory);
  return (faster(better, member) && !more) || (less && !faster(member, better));
}

bool any_memory_compares(const std::vector<RankedCase>& members) {
  for (const RankedCase& a : members)
    for (const RankedCase& b : members)
      if (&a != &b && memory_compares(a, b)) return true;
  return false;
}

// Computes the share of a case's step that is lost against ideal scaling, and splits it into communication, waiting and
// computation. Does nothing for world 1, without an efficiency, or if replicas share cores, because ideal scaling is
// then undefined.
void fill_loss(const Report& report, const RankedCase& member, Choice& choice) {
  const CaseRecord& record = *member.record;
  if (record.spec.world == 1 || !record.derived.efficiency || crowded(record.spec, cores_of(report))) return;
  choice.loss = 1 - *record.derived.efficiency;
  if (*choice.loss <= 0 || !member.parts) return;
  const double lost = member.parts->communication + member.parts->waiting, all = std::max(*choice.loss, lost);
  choice.loss_parts = {{"communication", member.parts->communication / all},
                       {"waiting", member.parts->waiting / all},
                       {"computation", (all - lost) / all}};
}

void fill_ratios(const RankedCase& member, const RankedCase& fastest, Choice& choice) {
  const bool own = &member == &fastest;
  if (auto time = speed_ratio(fastest, member)) {
    if (own) time = Estimate{1, 1, 1};
    choice.time_ratio = time->middle, choice.time_low = time->low, choice.time_high = time->high;
  }
  if (auto memory = memory_ratio(member, fastest)) {
    if (own) memory = Estimate{1, 1, 1};
    choice.memory_ratio = memory->middle, choice.memory_low = memory->low, choice.memory_high = memory->high;
  }
}

std::vector<Choice> choices_of(const Report& report, const std::vector<RankedCase>& members) {
  const auto time = standings(members, [](const RankedCase& a, const RankedCase& b) { return speed_ratio(b, a); });
  const auto memory = standings(members, memory_ratio);
  const bool any_memory = any_memory_compares(members);
  std::vector<Choice> choices;
  for (size_t i = 0; i < members.size(); ++i) {
    const RankedCase& member = members[i];
    Choice& choice = choices.emplace_back();
    choice.case_id = member.record->spec.id;
    choice.label = member.label;
    choice.time = time[i], choice.memory = memory[i];
    fill_ratios(member, members.front(), choice);
    choice.on_front = member.speed && std::none_of(members.begin(), members.end(), [&](const RankedCase& other) {
                        return &other != &member && dominates(other, member, any_memory);
                      });
    fill_loss(report, member, choice);
  }
  return choices;
}

AnswerGroup answer_of(const Report& report, const CaseGroup& group) {
  const CaseSpec& spec = group.members.front().record->spec;
  AnswerGroup answer;
  answer.setting = setting_text(spec);
  answer.world = spec.world;
  answer.choices = choices_of(report, group.members);
  const GroupFacts facts{report, group.members, answer.choices, group.paired, group.launches};
  answer.sentences = sentences_of(facts);
  answer.decide = flags_to_decide(facts);
  return answer;
}

// Appends the number of samples per step to the setting texts of groups that have the same text and world. Such groups
// exist with weak scaling: each rank of ddp has samples of its own, but the ranks of tp share theirs, so a step of ddp
// has more samples.
void tell_apart(std::vector<AnswerGroup>& groups, const std::vector<CaseGroup>& cases) {
  const std::vector<AnswerGroup> plain = groups;
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto alike = std::ranges::count_if(plain, [&](const AnswerGroup& other) {
      return std::tie(other.setting, other.world) == std::tie(plain[i].setting, plain[i].world);
    });
    if (alike == 1) continue;
    const int64_t samples = cases[i].members.front().record->spec.global_batch();
    groups[i].setting += " · " + std::to_string(samples) + " samples per step";
  }
}

// Returns the verdict of a run of `tune` as sentences. The cases of such a run are not ranked: the launches in which
// tune chose a candidate are biased toward it, and other candidates have fewer launches.
std::vector<Sentence> verdict_of_tune(const Report& report, int first) {
  std::vector<Sentence> sentences;
  for (const Tuned& one : tuned(report, first)) sentences.push_back({tune_rule, tuned_text(one) + "."});
  if (sentences.empty()) sentences.push_back({"not-tuned", not_tuned});
  return sentences;
}

}  // namespace

Answer answer_of(const Report& report) {
  Answer answer;
  if (const auto first = judged_from(report)) {
    answer.sentences = verdict_of_tune(report, *first);
    return answer;
  }
  const CaseGroups found = groups_of(report);
  for (const CaseGroup& group : found.groups) answer.groups.push_back(answer_of(report, group));
  tell_apart(answer.groups, found.groups);
  answer.not_ranked = found.not_ranked;
  for (const RunRule& rule : run_rules())
    if (rule.holds(report, answer)) answer.sentences.push_back({rule.name, rule.text(report, answer)});
  return answer;
}

}  // namespace dpbench
