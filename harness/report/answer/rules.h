// The rules that turn the figures of a run's answer into sentences. Each rule is a row of a table: a condition and a
// sentence.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/report/answer/members.h"

namespace dpbench {

// A group of comparable cases with their places by speed and memory: choices[i] belongs to members[i].
struct GroupFacts {
  const Report& report;
  const std::vector<RankedCase>& members;
  const std::vector<Choice>& choices;
  bool paired = false;
  int launches = 0;

  const Choice& choice_of(const RankedCase& member) const {
    return choices[static_cast<size_t>(&member - members.data())];
  }
  const RankedCase& fastest() const { return members.front(); }
};

// Subject of a rule's sentence. group: the rule is applied once to a group, with the group's fastest case. member: the
// rule is applied to each case of the group.
enum class RuleSubject { group, member };

struct AnswerRule {
  const char* name;
  RuleSubject subject;
  bool (*holds)(const GroupFacts&, const RankedCase&);
  std::string (*text)(const GroupFacts&, const RankedCase&);
};
// Returns the case to which a slower case is compared: the first of the group that is faster() than `member`. This is
// not the fastest case of the group if the run cannot tell that case and `member` apart. Requires that the standing of
// `member` is `behind`.
const RankedCase& faster_than(const GroupFacts& facts, const RankedCase& member);

// Rules for the sentences about a group, in the order of the sentences. `reason_rules` explain why a case is slower
// than a faster one; the first rule with a true condition applies.
const std::vector<AnswerRule>& group_rules();
const std::vector<AnswerRule>& reason_rules();
std::vector<Sentence> sentences_of(const GroupFacts& facts);

// Returns the command-line flags with which a new run could rank more cases of the group; empty if no flag would help.
std::string flags_to_decide(const GroupFacts& facts);

struct RunRule {
  std::string name;
  std::function<bool(const Report&, const Answer&)> holds;
  std::function<std::string(const Report&, const Answer&)> text;
};
const std::vector<RunRule>& run_rules();

}  // namespace dpbench
