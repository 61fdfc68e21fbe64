// Comparison of two runs: the estimate of a change, its verdict (slower, faster, same, unclear), and how often the
// verdict is wrong.
#include <cstdio>
#include <random>

#include "tests/unit/report/compared.h"

namespace dpbench {
namespace {

using namespace test;

// Expected values from Python: a = numpy.log(base); b = numpy.log(new); r = scipy.stats.ttest_ind(b, a,
// equal_var=False); b.mean() - a.mean(); r.confidence_interval(0.95)
TEST(WelchInterval, AgreesWithScipyOnTheLogsOfLaunchMedians) {
  const Comparison result = compared(run_of({ddp(base_times)}), run_of({ddp(slower_times)}));
  EXPECT_NEAR(result.judged[0].change.estimate, 0.0723665904980777, 1e-12);
  EXPECT_NEAR(result.judged[0].change.low, 0.0504269169319978, 1e-9);
  EXPECT_NEAR(result.judged[0].change.high, 0.0943062640641576, 1e-9);
  EXPECT_EQ(result.judged[0].verdict, Verdict::slower);
}

// Expected values from numpy, with the same formula for four groups (case and baseline of both runs): V = sum of var/n,
// df = V^2 / sum((var/n)^2 / (n - 1)), half = scipy.stats.t.ppf(0.975, df) * sqrt(V)
TEST(WelchInterval, OfARatioIncludesTheNoiseOfTheBaseline) {
  const Comparison result = compared(run_of({cpu(base_baseline), ddp(base_times)}),
                                     run_of({cpu(new_baseline), ddp(slower_times)}), "ratio-to-baseline:5%");
  ASSERT_EQ(result.judged.size(), 1u) << "the baseline is not judged against itself";
  EXPECT_NEAR(result.judged[0].change.estimate, 0.07520506155050466, 1e-12);
  EXPECT_NEAR(result.judged[0].change.low, 0.042350992296182, 1e-9);
  EXPECT_NEAR(result.judged[0].change.high, 0.10805913080482732, 1e-9);
}

// With weak scaling, efficiency is the baseline's step time / the case's step time: 0.5039 in the base run and 0.4674
// in the new run. The expected values are from numpy, with each term weighted by 100 x efficiency.
TEST(WelchInterval, OfAnEfficiencyIsJudgedInPercentagePoints) {
  const Report base = run_of({cpu(base_baseline), ddp(base_times)}),
               now = run_of({cpu(new_baseline), ddp(slower_times)});
  const Judgement j = compared(base, now, "efficiency:3").judged.at(0);
  EXPECT_NEAR(j.base.value_or(0), 0.503947573613601, 1e-12);
  EXPECT_NEAR(j.now, 0.4674382154372583, 1e-12);
  EXPECT_NEAR(j.change.estimate, 3.650935817634271, 1e-9);
  EXPECT_NEAR(j.change.low, 2.028950982619992, 1e-7);
  EXPECT_NEAR(j.change.high, 5.2729206526485495, 1e-7);
  EXPECT_EQ(j.verdict, Verdict::slower);
  EXPECT_EQ(compared(base, now, "efficiency:5").judged.at(0).verdict, Verdict::unclear)
      << "the interval 2.0 to 5.3 contains 5";
  EXPECT_EQ(compared(base, now, "efficiency:6").judged.at(0).verdict, Verdict::same);
}

TEST(Verdict, DependsOnTheChangeItsIntervalTheLimitAndTheNumberOfLaunches) {
  const double limit = 0.05;
  EXPECT_EQ(verdict_of({0.50, 0.40, 0.60}, limit, 3), Verdict::unclear) << "too few launches";
  EXPECT_EQ(verdict_of({0.06, 0.01, 0.11}, limit, 4), Verdict::slower);
  EXPECT_EQ(verdict_of({0.06, -0.01, 0.13}, limit, 4), Verdict::unclear) << "the interval contains 0";
  EXPECT_EQ(verdict_of({0.04, 0.02, 0.06}, limit, 4), Verdict::unclear) << "the interval contains the limit";
  EXPECT_EQ(verdict_of({0.04, 0.03, 0.049}, limit, 4), Verdict::same) << "slower, but by less than the limit";
  EXPECT_EQ(verdict_of({0.00, -0.04, 0.04}, limit, 4), Verdict::same);
  EXPECT_EQ(verdict_of({0.00, -0.06, 0.06}, limit, 4), Verdict::unclear);
  EXPECT_EQ(verdict_of({-0.06, -0.11, -0.01}, limit, 4), Verdict::faster);
  EXPECT_EQ(verdict_of({-0.04, -0.06, -0.02}, limit, 4), Verdict::unclear);
  EXPECT_EQ(verdict_of({-0.04, -0.049, -0.03}, limit, 4), Verdict::same);
}

TEST(Verdict, IsUnclearWithFewerThanFourLaunchesInEitherRun) {
  const Times four = {1000, 1001, 999, 1000}, three = {2000, 2001, 1999}, four_slow = {2000, 2001, 1999, 2000};
  EXPECT_EQ(verdict(four, three), Verdict::unclear);
  EXPECT_EQ(verdict(three, four), Verdict::unclear);
  EXPECT_EQ(verdict(four, four_slow), Verdict::slower);
  EXPECT_EQ(verdict(four_slow, four), Verdict::faster);
  EXPECT_EQ(verdict(four, four), Verdict::same);
}

TEST(Verdict, IsUnclearAndHasNoIntervalForOneLaunchPerRun) {
  const Comparison result = compared(run_of({ddp({1000})}), run_of({ddp({2000})}));
  EXPECT_EQ(result.judged.at(0).verdict, Verdict::unclear);
  EXPECT_TRUE(std::isinf(result.judged[0].change.high));
  EXPECT_TRUE(compare_json(result)["judged"][0]["ci95_low_percent"].is_null());
}

TEST(Metrics, HostMemoryIsNotComparedBetweenReportsThatMeasureItDifferently) {
  const auto with = [](int64_t own, int64_t device) {
    CaseRecord record = ddp({1000, 1001, 999, 1000});
    for (auto& launch : record.launches)
      launch.ranks[0].peak_rss_bytes = 100, launch.ranks[0].own_rss_bytes = own,
      launch.ranks[0].peak_device_bytes = device;
    return run_of({record});
  };
  EXPECT_EQ(compared(with(50, 0), with(60, 0), "peak-memory:10%").judged.at(0).verdict, Verdict::slower);
  expect_contains(refusal([&] { compared(with(0, 0), with(50, 0), "peak-memory:10%"); }), {"base run"});
  EXPECT_EQ(compared(with(0, 7), with(50, 7), "peak-memory:10%").judged.at(0).verdict, Verdict::same);
}

TEST(Metrics, EachMetricIsJudgedByWhetherHigherOrLowerIsBetter) {
  const auto with = [](int64_t p99, int64_t rss, int64_t device) {
    CaseRecord record = ddp({1000, 1001, 999, 1000});
    for (auto& launch : record.launches) {
      launch.ranks[1].step_p99_ns = p99;
      launch.ranks[0].peak_rss_bytes = rss;
      launch.ranks[1].peak_device_bytes = device;
    }
    return run_of({record});
  };
  const auto judged = [](const Report& base, const Report& now, const char* rule) {
    return compared(base, now, rule).judged.at(0).verdict;
  };
  EXPECT_EQ(judged(with(100, 1, 0), with(120, 1, 0), "p99:10%"), Verdict::slower);
  EXPECT_EQ(judged(with(120, 1, 0), with(100, 1, 0), "p99:10%"), Verdict::faster);
  EXPECT_EQ(judged(with(1, 100, 0), with(1, 120, 0), "peak-memory:10%"), Verdict::slower);
  EXPECT_EQ(judged(with(1, 100, 0), with(1, 109, 0), "peak-memory:10%"), Verdict::same);
  EXPECT_EQ(judged(with(1, 100, 50), with(1, 900, 50), "peak-memory:10%"), Verdict::same)
      << "GPU memory takes precedence";
  EXPECT_EQ(verdict({1000, 1001, 999, 1000}, {1200, 1201, 1199, 1200}, "throughput:10%"), Verdict::slower);
  EXPECT_EQ(verdict({1200, 1201, 1199, 1200}, {1000, 1001, 999, 1000}, "throughput:10%"), Verdict::faster);
}

// A step time of 1.0526 times the base run's gives 95 % of its throughput; 1.05 times gives 95.2 %.
TEST(Metrics, AThroughputLimitIsRelativeToTheBaseThroughput) {
  const Times base = {100000, 100001, 99999, 100000};
  EXPECT_EQ(verdict(base, {105400, 105401, 105399, 105400}, "throughput:5%"), Verdict::slower);
  EXPECT_EQ(verdict(base, {105100, 105101, 105099, 105100}, "throughput:5%"), Verdict::same);
  EXPECT_EQ(verdict(base, {105100, 105101, 105099, 105100}, "median:5%"), Verdict::slower);
}

// One row of the table of simulated comparisons. The simulation measures how often the gate raises a false alarm in a
// run of 20 equal cases, and how often it finds a slowdown. The bounds allow for the error of the simulation with its
// fixed seed.
struct Power {
  double noise, limit;
  int launches;
  double slower_by;
  double least, most;  // smallest and largest allowed share of simulated comparisons with the verdict SLOWER
};

double share_slower(const Power& p, std::mt19937_64& generator) {
  std::normal_distribution<double> normal;
  const auto launches = [&](double level) {
    std::vector<double> logs(static_cast<size_t>(p.launches));
    for (double& log : logs) log = level + p.noise * normal(generator);
    return moments(logs);
  };
  // An experiment (one simulated comparison of two runs) has one slow case, or 20 cases without a slowdown.
  const int cases = p.slower_by > 0 ? 1 : 20, experiments = 2000;
  int alarms = 0;
  for (int experiment = 0; experiment < experiments; ++experiment) {
    bool slower = false;
    for (int i = 0; i < cases; ++i) {
      const Moments base = launches(0), now = launches(std::log1p(p.slower_by));
      const Term terms[] = {{1, base}, {1, now}};
      slower |=
          verdict_of(welch_change(now.mean - base.mean, terms), std::log1p(p.limit), p.launches) == Verdict::slower;
    }
    alarms += slower;
  }
  return static_cast<double>(alarms) / experiments;
}

TEST(StatisticalPower, OfTheGateSufficesToFindRealSlowdownsWithFewFalseAlarms) {
  std::mt19937_64 generator(3);
  const Power table[] = {
      {0.02, 0.05, 5, 0.00, 0.00, 0.005}, {0.02, 0.05, 5, 0.06, 0.70, 0.84}, {0.02, 0.05, 5, 0.10, 0.99, 1.00},
      {0.02, 0.03, 5, 0.00, 0.09, 0.18},  {0.02, 0.03, 5, 0.06, 0.93, 1.00}, {0.01, 0.05, 5, 0.06, 0.88, 1.00},
      {0.01, 0.03, 5, 0.00, 0.00, 0.005}, {0.02, 0.05, 3, 0.50, 0.00, 0.00}, {0.05, 0.05, 10, 0.00, 0.00, 0.30}};
  std::printf("noise  limit  launches  slower by  called SLOWER\n");
  for (const Power& p : table) {
    const double share = share_slower(p, generator);
    std::printf("%4.0f %%  %4.0f %%  %8d  %7.0f %%  %11.1f %%\n", 100 * p.noise, 100 * p.limit, p.launches,
                100 * p.slower_by, 100 * share);
    EXPECT_GE(share, p.least) << p.noise << " " << p.limit << " " << p.slower_by;
    EXPECT_LE(share, p.most) << p.noise << " " << p.limit << " " << p.slower_by;
  }
}

// The step times `base_times` have a median of 1000 ns with a confidence interval of +- 1.9 %.
TEST(AbsoluteLimit, JudgesTheNewRunAlone) {
  EXPECT_EQ(verdict(slower_times, base_times, "median:<1100ns"), Verdict::same);
  EXPECT_EQ(verdict(slower_times, base_times, "median:<900ns"), Verdict::slower);
  EXPECT_EQ(verdict(slower_times, base_times, "median:<1005ns"), Verdict::unclear);
  EXPECT_EQ(verdict(base_times, {1000, 1000}, "median:<2000ns"), Verdict::unclear) << "two launches are too few";
  EXPECT_EQ(verdict(base_times, {1000, 1000, 1000}, "median:<2000ns"), Verdict::same);
  EXPECT_EQ(verdict(base_times, base_times, "throughput:>1000"), Verdict::same);
  EXPECT_EQ(verdict(base_times, base_times, "throughput:>1000000000000"), Verdict::slower);
}

TEST(AbsoluteLimit, HoldsForACaseThatTheBaseRunLacks) {
  const Report base = run_of({cpu(base_times)}), now = run_of({cpu(base_times), ddp(base_times)});
  const Comparison result = compared(base, now, "median:<900ns");
  EXPECT_EQ(result.judged.size(), 2u);
  EXPECT_TRUE(result.failed());
  const auto rows = compare_rows(result);
  EXPECT_EQ(rows[2][2], "-");
  EXPECT_EQ(rows[2][6], "BEYOND");
  EXPECT_TRUE(compare_json(result)["judged"][1]["base"].is_null());
  EXPECT_DOUBLE_EQ(compare_json(result)["judged"][1]["limit"], 9e-4);
}

TEST(AbsoluteLimit, IsJudgedForRunsOnDifferentMachines) {
  Report base = run_of({ddp(base_times)}), now = run_of({ddp(base_times)});
  base.env = {{"cpu", {{"model", "one"}}}}, now.env = {{"cpu", {{"model", "other"}}}};
  EXPECT_EQ(refusal([&] { compared(base, now, "median:<2000ns"); }), "not refused");
  EXPECT_NE(refusal([&] { compared(base, now, "median:5%"); }), "not refused");
}

}  // namespace
}  // namespace dpbench
