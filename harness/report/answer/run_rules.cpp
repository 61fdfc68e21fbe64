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

// Returns a rule that lists the cases left out of the comparison for the reason `why`.
RunRule rule_for(const std::string& name, const std::string& why, const std::string& remark) {
  return {name, [=](const Report&, const Answer& answer) { return !left_out(answer, why).empty(); },
          [=](const Report&, const Answer& answer) {
            return "Not compared: " + cases_text(left_out(answer, why)) + ": " + remark;
          }};
}

RunRule rule_for(CaseStatus status, const std::string& remark) {
  return rule_for(name_of(status), name_of(status), remark);
}

}  // namespace

const std::vector<RunRule>& run_rules() {
  static const std::vector<RunRule> rules = {
      {"nothing-compares",
       [](const Report&, const Answer& answer) {
         return std::none_of(answer.groups.begin(), answer.groups.end(),
                             [](const AnswerGroup& group) { return group.choices.size() > 1; });
       },
       [](const Report&, const Answer&) { return std::string("No two cases of this run can be compared."); }},
      {busy_rule, [](const Report& report, const Answer&) { return !report.disturbance.empty(); },
       [](const Report& report, const Answer&) { return report.disturbance + ". Measure again on an idle machine."; }},
      rule_for(CaseStatus::wrong, "a check failed."),
      rule_for(CaseStatus::failed, "failed."),
      rule_for(CaseStatus::disturbed, "disturbed. Stop other programs and measure again."),
      rule_for(CaseStatus::unproven, "unproven: the notes of the table say why."),
      rule_for(CaseStatus::interrupted, "the run ended first."),
      rule_for("unchecked", "not checked", "not checked. Measure without --check off."),
      rule_for("other-mathematics", "other mathematics",
               "a step computes something else, so that speeds do not compare."),
      rule_for("unknown-mathematics", "unknown mathematics",
               "no check compared its gradient with one device's, so a step may compute something else."),
      rule_for(CaseStatus::skipped, "skipped: the notes of the table say why."),
  };
  return rules;
}

}  // namespace dpbench
