// Tests the text of `dpbench check`: counts, failures grouped by their likely cause, cases that did not run.
#include <gtest/gtest.h>

#include "harness/front/commands/check/check_text.h"
#include "tests/support/contains.h"

namespace dpbench {
namespace {

CaseRecord checked(const std::string& strategy, const std::string& workload, CaseStatus status,
                   std::vector<CheckRow> checks) {
  CaseRecord one;
  one.spec.strategy = strategy;
  one.spec.workload = workload;
  one.spec.id = case_id(one.spec);
  one.status = status;
  one.checks = std::move(checks);
  return one;
}

CheckRow failed(const std::string& name, const std::string& likely) {
  return {.name = name, .status = CheckStatus::failed, .detail = "detail of " + name, .likely = likely};
}

size_t times(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(CheckText, GroupsFailuresOfAllCasesByTheirCause) {
  Report report;
  report.cases = {checked("sum", "toy", CaseStatus::wrong,
                          {{.name = "output-shape", .status = CheckStatus::passed},
                           failed("loss-value", "another rank's loss"),
                           failed("gradient-meaning", "3 times what they should be: summed over 3 ranks"),
                           failed("accumulation", "3 times what they should be: summed over 3 ranks")}),
                  checked("sum", "other", CaseStatus::wrong,
                          {failed("clip", "2 times what they should be: summed over 2 ranks (all parameters)")})};
  const std::string text = check_summary(report);
  EXPECT_EQ(times(text, "times what they should be"), 1u) << text;
  expect_contains(text, {"gradient-meaning, accumulation, clip; 2 cases", "detail of gradient-meaning",
                         "loss-value; 1 case", "1 checks passed, 4 failed"});
  // the cause of the most failed checks comes first
  EXPECT_LT(text.find("times what"), text.find("another rank's loss"));
  EXPECT_EQ(times(text, "output-shape"), 0u);
  EXPECT_EQ(times(every_check(report), "output-shape"), 1u);
}

TEST(CheckText, CountsSkippedAndFailedCasesByReason) {
  Report report;
  for (const char* workload : {"one", "two", "three"})
    report.cases.push_back(checked("mine", workload, CaseStatus::skipped, {}));
  report.cases[0].reason = report.cases[1].reason = "needs a GPU";
  report.cases[2].status = CaseStatus::failed, report.cases[2].reason = "rank 1 was ended by signal 9";
  const std::string text = check_summary(report);
  EXPECT_TRUE(mentions_in_order(
      text, {"of 3 cases", "2 cases skipped", report.cases[0].reason, "1 case failed", report.cases[2].reason}));
}

TEST(CheckText, FirstLineNamesTheMostFrequentReasonForUncheckedCases) {
  Report report;
  for (const char* workload : {"one", "two", "three", "four"})
    report.cases.push_back(checked("mine", workload, CaseStatus::skipped, {}));
  report.cases[0].reason = "needs a GPU";
  for (const size_t i : {1u, 2u, 3u}) report.cases[i].reason = "refused: float64 is not supported";
  const auto first_line = [&] {
    const std::string text = check_summary(report);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_TRUE(
      mentions_in_order(first_line(), {"0 of 4 cases", "3 skipped", report.cases[1].reason, "0 checks passed"}));
  report.cases[3].status = CaseStatus::unproven;
  report.cases[1].status = CaseStatus::ok;
  EXPECT_TRUE(mentions_in_order(first_line(), {"1 of 4 cases", "1 skipped", report.cases[0].reason}));
  for (CaseRecord& one : report.cases) one.status = CaseStatus::ok;
  EXPECT_TRUE(mentions_in_order(first_line(), {"4 of 4 cases", "0 checks passed"}));
}

TEST(CheckText, CountsCasesThatTheStrategyRefusedApartFromOtherUncheckedCases) {
  Report report;
  for (const char* workload : {"one", "two", "three", "four", "five"})
    report.cases.push_back(checked("mine", workload, CaseStatus::skipped, {}));
  EXPECT_EQ(check_counts(report).find("refused"), std::string::npos);
  for (const size_t i : {0u, 1u, 2u}) report.cases[i].refusal = Refusal::scenario;
  EXPECT_TRUE(mentions_in_order(check_counts(report), {"0 of 5 cases could be checked, 3 refused"}));
}

TEST(CheckText, FirstLineCountsCasesOfWhichTheStrategyRefusedAPart) {
  Report report;
  for (const char* workload : {"one", "two", "three"})
    report.cases.push_back(checked("mine", workload, CaseStatus::ok, {{.name = "output-shape"}}));
  report.cases[0].refusal = Refusal::feature;  // e.g. clipping, in a case without --clip-norm
  EXPECT_EQ(check_counts(report).find("in part"), std::string::npos);
  report.cases[1].refusal = report.cases[2].refusal = Refusal::scenario;
  report.cases[2].checks.push_back(
      {.name = "gradient-meaning", .status = CheckStatus::skipped, .detail = "refused: needs float32"});
  EXPECT_TRUE(mentions_in_order(check_counts(report), {"3 of 3 cases could be checked, 2 of these in part",
                                                       "refused: needs float32", "3 checks passed"}))
      << check_counts(report);
  report.cases[2].status = CaseStatus::unproven;
  EXPECT_TRUE(
      mentions_in_order(check_counts(report), {"2 of 3 cases could be checked, 1 of these in part, 1 refused"}));
}

}  // namespace
}  // namespace dpbench
