// Rules for the sentences about a whole run, such as the list of cases that are not compared, and the reasons.
#include <algorithm>
#include <string>

#include "harness/report/answer/rules.h"
#include "harness/report/answer/words.h"

namespace dpbench {
namespace {

std::vector<std::string> left_out(const Answer& answer, const std::string& why) {
  std::vector<std::string> ids;
  for (const NotRanked& one : answer.not_ranked)
    if (one.why == why || one.why.starts_with(why + ":")) ids.push_back(one.case_id);
  return ids;
}

std::string cases_text(const std::vector<std::string>& ids) {
  constexpr size_t named = 3;
  if (ids.size() <= named) return listed(ids);
  return ids[0] + " and " + std::to_string(ids.size() - 1) + " more cases";
}

// Returns a rule that lists the cases left out of the comparison for the reason `why`. `why` is a template argument,
// because rules are plain functions without captures.
template <const auto& why, const auto& remark>
RunRule rule_for(const char* name) {
  return {name, [](const Report&, const Answer& answer) { return !left_out(answer, why).empty(); },
          [](const Report&, const Answer& answer) {
            return "Not compared: " + cases_text(left_out(answer, why)) + ": " + remark;
          }};
}

constexpr char other[] = "other mathematics",
               other_remark[] = "a step computes something else, so that speeds do not compare.";
constexpr char unknown[] = "unknown mathematics",
               unknown_remark[] =
                   "no check compared its gradient with one device's, so a step may compute something "
                   "else.";
constexpr char unchecked[] = "not checked", unchecked_remark[] = "not checked. Measure without --check off.";
constexpr char disturbed[] = "disturbed", disturbed_remark[] = "disturbed. Stop other programs and measure again.";
constexpr char wrong[] = "wrong", wrong_remark[] = "a check failed.";
constexpr char failed[] = "failed", failed_remark[] = "failed.";
constexpr char unproven[] = "unproven", unproven_remark[] = "no gradient could be judged.";
constexpr char interrupted[] = "interrupted", interrupted_remark[] = "the run ended first.";
constexpr char skipped[] = "skipped", skipped_remark[] = "this machine cannot run it.";

}  // namespace

const std::vector<RunRule>& run_rules() {
  static const std::vector<RunRule> rules = {
      {"nothing-compares",
       [](const Report&, const Answer& answer) {
         return std::none_of(answer.groups.begin(), answer.groups.end(),
                             [](const AnswerGroup& group) { return group.choices.size() > 1; });
       },
       [](const Report&, const Answer&) { return std::string("No two cases of this run can be compared."); }},
      {"busy", [](const Report& report, const Answer&) { return !report.disturbance.empty(); },
       [](const Report& report, const Answer&) { return report.disturbance + ". Measure again on an idle machine."; }},
      rule_for<wrong, wrong_remark>("wrong"),
      rule_for<failed, failed_remark>("failed"),
      rule_for<disturbed, disturbed_remark>("disturbed"),
      rule_for<unproven, unproven_remark>("unproven"),
      rule_for<interrupted, interrupted_remark>("interrupted"),
      rule_for<unchecked, unchecked_remark>("unchecked"),
      rule_for<other, other_remark>("other-mathematics"),
      rule_for<unknown, unknown_remark>("unknown-mathematics"),
      rule_for<skipped, skipped_remark>("skipped"),
  };
  return rules;
}

}  // namespace dpbench
