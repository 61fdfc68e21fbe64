// Tests the search of `dpbench tune`: successive halving of the candidates, and the verdict on the last one.
#include <gtest/gtest.h>

#include "harness/report/answer/answer.h"
#include "harness/report/answer/answer_output.h"
#include "harness/report/judge/tuning.h"
#include "tests/support/contains.h"
#include "tests/support/sample_reports.h"

namespace dpbench {
namespace {

// Returns a case of ddp with a value of bucket_mb (empty: the default value). In launch i (start of the processes), its
// blocks of 10 steps take blocks_ns[i] ns. The reference, the case to which its speed is compared, takes 1,000 ns per
// step.
CaseRecord candidate(const std::string& bucket, const std::vector<int64_t>& blocks_ns) {
  CaseRecord record = test::measured("ddp", 2, Scaling::weak, 64, blocks_ns);
  if (!bucket.empty()) record.spec.params = {{"bucket_mb", bucket}};
  record.spec.id = case_id(record.spec);
  record.means = batch_mean;
  for (LaunchRecord& launch : record.launches) launch.reference_ns.assign(3, 1000);
  return record;
}

Report with(std::vector<CaseRecord> cases) {
  Report report = test::report_of(std::move(cases));
  report.config = {{"reference", "ddp"}};
  summarise(report);
  return report;
}

// The default values take 1,000 ns per step; the four candidates take 900, 1,100, 800 and 1,200 ns.
Report five_cases() {
  return with({candidate("", {10000}), candidate("1", {9000}), candidate("2", {11000}), candidate("3", {8000}),
               candidate("4", {12000})});
}

TEST(Tuning, KeepsTheDefaultAndTheFasterHalfOfTheCandidatesInEachRound) {
  const Report report = five_cases();
  const auto kept = faster_half(report, {0, 1, 2, 3, 4});
  EXPECT_EQ(kept, (std::vector<size_t>{0, 1, 3}));
  EXPECT_FALSE(one_is_left(report, kept));
  const auto last = faster_half(report, kept);
  EXPECT_EQ(last, (std::vector<size_t>{0, 3}));
  EXPECT_TRUE(one_is_left(report, last));
}

TEST(Tuning, DropsCandidatesThatUseTheGradientInAnotherWayThanTheReference) {
  Report report = five_cases();
  report.cases[3].means = "local steps";
  EXPECT_EQ(faster_half(report, {0, 1, 2, 3, 4}), (std::vector<size_t>{0, 1, 2}));
}

// Returns the block times of a case in five launches. After the first launch, tune keeps the fastest candidates
// (parameter values other than the defaults). It judges the last candidate by the other four launches.
std::vector<int64_t> launches_ns(int64_t first, int64_t later) { return {first, later, later + 10, later - 10, later}; }

TEST(Tuning, JudgesACandidateOnlyByLaunchesAfterThoseThatSelectedIt) {
  // The candidate is fast only in the first launch, by luck. In later launches it is as fast as the default.
  const Report report = with({candidate("", launches_ns(10000, 10000)), candidate("1", launches_ns(5000, 10000))});
  const auto found = tuned(report, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].launches, 4);
  EXPECT_EQ(found[0].pairs, 12);
  EXPECT_NEAR(found[0].speedup, 1, 1e-3);
  EXPECT_EQ(found[0].verdict, Verdict::same);
  expect_contains(tuned_text(found[0]), {"keep", "best candidate", "ddp.bucket_mb=1"});
}

TEST(Tuning, TextOnAFasterCandidateNamesItsFlags) {
  const Report report = with({candidate("", launches_ns(10000, 10000)), candidate("5", launches_ns(9000, 8000))});
  const auto found = tuned(report, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].faster());
  EXPECT_NEAR(found[0].speedup, 1.25, 0.01);
  EXPECT_LE(found[0].low, found[0].speedup);
  EXPECT_LE(found[0].speedup, found[0].high);
  expect_contains(tuned_text(found[0]), {"use --param ddp.bucket_mb=5", "1.25x", "4 launches"});
}

// Every pair is 2 % faster, so any confidence interval excludes 1. duel never calls a change below 2.5 % faster.
TEST(Tuning, KeepsTheDefaultIfTheCandidateIsFasterByLessThanDuelCanTell) {
  const Report report = with({candidate("", launches_ns(10000, 10000)), candidate("5", launches_ns(9800, 9800))});
  const auto found = tuned(report, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_GT(found[0].low, 1);
  EXPECT_EQ(found[0].verdict, Verdict::same);
  expect_contains(tuned_text(found[0]), {"keep the default values"});
}

TEST(Tuning, CannotTellWhetherACandidateIsFasterInThreeLaunches) {
  const Report report = with({candidate("", {10000, 10000, 10000, 10000}), candidate("5", {8000, 8000, 8000, 8000})});
  const auto found = tuned(report, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].launches, 3);
  EXPECT_EQ(found[0].verdict, Verdict::unclear);
  expect_contains(tuned_text(found[0]), {"keep the default values", "cannot tell whether --param ddp.bucket_mb=5"});
}

TEST(Tuning, GivesNoVerdictOnACandidateWithoutAPairOfBlocksAfterItsSelection) {
  const Report report = with({candidate("", {10000, 10000}), candidate("5", {8000})});
  EXPECT_TRUE(tuned(report, 1).empty());
}

// The lucky launch that chose the candidate must not make it the fastest case of the run.
TEST(Tuning, TheAnswerOfATuneRunIsTheVerdictOnTheCandidate) {
  Report report = with({candidate("", launches_ns(10000, 10000)), candidate("1", launches_ns(5000, 10000))});
  report.config[first_judged] = 1;
  Answer answer = answer_of(report);
  EXPECT_TRUE(answer.groups.empty());
  ASSERT_EQ(answer.sentences.size(), 1u);
  EXPECT_EQ(answer.sentences[0].text, tuned_text(tuned(report, 1).at(0)) + ".");
  EXPECT_TRUE(compares_any(answer));
  report.config[first_judged] = 5;  // no launch was left to judge the candidate
  answer = answer_of(report);
  ASSERT_EQ(answer.sentences.size(), 1u);
  EXPECT_EQ(answer.sentences[0].text, not_tuned);
  EXPECT_FALSE(compares_any(answer));
}

}  // namespace
}  // namespace dpbench
