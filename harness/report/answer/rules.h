// The rules that turn the figures of an answer into sentences. Each is a row of a table: a condition and a sentence.
#pragma once

#include <string>
#include <vector>

#include "harness/report/answer/members.h"

namespace dpbench {

// A group of comparable cases with the standing of each: choices[i] is that of members[i].
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

// Who a rule speaks of: the group (once, with its fastest member), or each member.
enum class RuleSubject { group, member };

struct AnswerRule {
  const char* name;
  RuleSubject subject;
  bool (*holds)(const GroupFacts&, const RankedCase&);
  std::string (*text)(const GroupFacts&, const RankedCase&);
};
// Returns the fastest case that is faster than `member` beyond the intervals, for rules on slower cases. It need not be
// the fastest of the group, which can tie with `member` if its interval is wide. Requires that the standing of `member`
// is `behind`.
const RankedCase& faster_than(const GroupFacts& facts, const RankedCase& member);

// The rules for a group, in the order of its sentences. `reason_rules` explain why a member is slower than the
// fastest; the first that holds is used.
const std::vector<AnswerRule>& group_rules();
const std::vector<AnswerRule>& reason_rules();
std::vector<Sentence> sentences_of(const GroupFacts& facts);

// Returns the flags of a run that would decide more about the group; empty if there are none.
std::string flags_to_decide(const GroupFacts& facts);

struct RunRule {
  const char* name;
  bool (*holds)(const Report&, const Answer&);
  std::string (*text)(const Report&, const Answer&);
};
const std::vector<RunRule>& run_rules();

}  // namespace dpbench
