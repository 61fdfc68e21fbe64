// The verdict of `duel` (which times two builds alternately): the signed-rank test, the numbers of pairs of timed
// blocks after which a case is judged, and the limits for noise and launches (starts of the processes).
// duel_replay_test.cpp measures error rates.
#include "harness/report/judge/duel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/report/judge/duel_report.h"
#include "harness/report/stats/signed_rank.h"
#include "harness/report/stats/stats.h"
#include "tests/support/contains.h"

namespace dpbench {
namespace {

// The expected value is scipy.stats.wilcoxon(x, alternative='greater', method='exact').
TEST(SignedRank, ExactFormAgreesWithScipy) {
  const std::vector<double> x = {0.031, -0.012, 0.044, 0.027, 0.019, -0.003, 0.052, 0.008, 0.036, -0.021, 0.015, 0.024};
  EXPECT_NEAR(signed_rank_p_above(x), 0.010498046875, 1e-15);
}

// The expected value comes from enumerating the signs of all 13 nonzero values. Zeros are left out.
TEST(SignedRank, PValueIsExactWithTiesAndZeros) {
  const std::vector<double> x = {1, 1, -1, 2, 2, -2, 3, 3, 4, -4, 5, 0, 0, 6, 7};
  EXPECT_NEAR(signed_rank_p_above(x), 0.0216064453125, 1e-15);
}

// The expected value is scipy.stats.wilcoxon(x, alternative='greater', method='approx', correction=True).
TEST(SignedRank, NormalApproximationAgreesWithScipy) {
  std::vector<double> x;
  for (int i = 0; i < 80; ++i) x.push_back(((i * 37) % 101 - 45) / 1000.0);
  EXPECT_NEAR(signed_rank_p_above(x), 0.07230362815190532, 1e-12);
}

TEST(SignedRank, PValueIsOneWithoutNonzeroDifferences) {
  EXPECT_EQ(signed_rank_p_above({}), 1);
  EXPECT_EQ(signed_rank_p_above(std::vector<double>{0, 0}), 1);
  EXPECT_NEAR(signed_rank_p_above(std::vector<double>(20, 0.1)), std::pow(0.5, 20), 1e-18);
}

const DuelRule rule;

// Returns `pairs` values evenly spaced from level - spread to level + spread.
std::vector<double> spread_about(double level, double spread, int pairs = 20) {
  std::vector<double> logs;
  for (int i = 0; i < pairs; ++i) logs.push_back(level + spread * (2.0 * i / (pairs - 1) - 1));
  return logs;
}

Verdict verdict(const std::vector<double>& logs, size_t cases = 1) { return duel_look(logs, 4, rule, cases).verdict; }

TEST(DuelVerdict, GivesTheVerdictsSameSlowerFasterAndUnclear) {
  EXPECT_EQ(verdict(spread_about(0, 0.02)), Verdict::same);
  EXPECT_EQ(verdict(spread_about(0.05, 0.02)), Verdict::slower);
  EXPECT_EQ(verdict(spread_about(-0.05, 0.02)), Verdict::faster);
  EXPECT_EQ(verdict(spread_about(0.03, 0.12)), Verdict::unclear);
}

TEST(DuelVerdict, GivesTheVerdictSameForASignificantButSmallChange) {
  EXPECT_EQ(verdict(spread_about(0.02, 0.005)), Verdict::same);
  EXPECT_EQ(verdict(spread_about(-0.02, 0.005)), Verdict::same);
  EXPECT_EQ(verdict(spread_about(0.03, 0.005)), Verdict::slower) << "above 2.5 %, though below 4.5 %";
}

TEST(DuelVerdict, IsUnclearAbove15PercentNoise) {
  const DuelLook look = duel_look(spread_about(0.5, 0.25), 4, rule, 1);
  EXPECT_GT(look.noise, 0.15);
  EXPECT_LT(look.p_slower, rule.alpha);
  EXPECT_EQ(look.verdict, Verdict::unclear);
  expect_contains(why_unclear(look, rule), {"15 %"});
  EXPECT_EQ(why_unclear(duel_look(spread_about(0.03, 0.12), 4, rule, 1), rule).find("15 %"), std::string::npos);
}

TEST(DuelVerdict, IsUnclearWithFewerThanFourLaunches) {
  EXPECT_EQ(duel_look(spread_about(0.5, 0.02), 3, rule, 1).verdict, Verdict::unclear);
  expect_contains(why_unclear(duel_look(spread_about(0.5, 0.02), 3, rule, 1), rule),
                  {"3 launches", "--pairs-per-launch"});
}

TEST(DuelVerdict, DividesTheSignificanceLevelByTheNumberOfCases) {
  const auto logs = spread_about(0.028, 0.058);
  EXPECT_EQ(verdict(logs, 1), Verdict::slower);
  EXPECT_EQ(verdict(logs, 100), Verdict::unclear);
}

// For Binomial(20, 1/2), P(X <= 5) = 2.07 % and P(X <= 6) = 5.8 %. So the confidence interval of the median is from the
// 6th to the 15th of 20 values.
TEST(DuelVerdict, IntervalOfTheMedianIsFromThe6thToThe15thOf20Values) {
  std::vector<double> logs;
  for (int i = 1; i <= 20; ++i) logs.push_back(i / 1000.0);
  const DuelLook look = duel_look(logs, 4, rule, 1);
  EXPECT_DOUBLE_EQ(look.change, 0.0105);
  EXPECT_DOUBLE_EQ(look.low, 0.006);
  EXPECT_DOUBLE_EQ(look.high, 0.015);
}

TEST(DuelRule, DecidesAfter20And40And80And160PairsOfBlocksWhetherToGoOn) {
  EXPECT_EQ(next_look(rule, 0), 20);
  EXPECT_EQ(next_look(rule, 20), 40);
  EXPECT_EQ(next_look(rule, 80), 160);
  EXPECT_EQ(next_look(rule, 160), 0);
}

// The median of the base build's blocks is 200 ms and that of the new build's 150 ms, but two of three pairs are 10 %
// slower.
TEST(DuelTable, TimeOfTheNewBuildIsTheBaseTimeChangedByTheMedianChangeOverPairs) {
  DuelCase record;
  record.spec.id = "ddp/toy";
  record.status = DuelStatus::ok;
  record.steps_per_block = 1;
  record.launches = {{{.base_ns = 100'000'000, .new_ns = 110'000'000},
                      {.base_ns = 200'000'000, .new_ns = 220'000'000},
                      {.base_ns = 300'000'000, .new_ns = 150'000'000}}};
  record.look = duel_look(log_ratios(record), 1, rule, 1);
  DuelReport report;
  report.cases = {record};
  const auto row = duel_rows(report).at(1);
  EXPECT_EQ(std::vector(row.begin(), row.begin() + 4),
            (std::vector<std::string>{"ddp/toy", "200 ms", "220 ms", "+10.0 %"}));
  report.cases[0].new_checks = {{.name = "audit", .status = CheckStatus::skipped, .detail = "no state"}};
  EXPECT_EQ(duel_rows(report).at(1).back(), "not audited: no state");
}

}  // namespace
}  // namespace dpbench
