#include "harness/report/stats/stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace dpbench {
namespace {

const std::vector<double> values = {10, 11, 13, 20, 12};

TEST(Stats, MedianIsTheMiddleValueOrTheMeanOfTwo) {
  EXPECT_EQ(median(values), 12);
  EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median(std::vector<double>{7}), 7);
}

// The expected values are numpy.quantile([10, 11, 13, 20, 12], q).
TEST(Stats, QuantilesAgreeWithNumpy) {
  EXPECT_DOUBLE_EQ(quantile(values, 0.025), 10.1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 17.2);
  EXPECT_DOUBLE_EQ(quantile(values, 0.99), 19.72);
  EXPECT_EQ(quantile(values, 0), 10);
  EXPECT_EQ(quantile(values, 1), 20);
}

// The distances from the median 12 are 2, 1, 1, 8 and 0. scipy.stats.median_abs_deviation gives 1.0, too.
TEST(Stats, MedianAbsoluteDeviationIsTheMedianDistanceFromTheMedian) { EXPECT_EQ(mad(values), 1); }

// The factor for a normal distribution is 1 / scipy.stats.norm.ppf(0.75), with ppf(0.75) = 0.6744897501960817.
TEST(Stats, ScaledMedianAbsoluteDeviationIsSigmaOfANormalDistribution) {
  EXPECT_NEAR(mad_to_sigma * 0.6744897501960817, 1, 1e-4);
}

// The variance is the sum of squares about the mean 13.2, divided by 4:
// (10.24 + 4.84 + 0.04 + 46.24 + 1.44) / 4 = 62.8 / 4 = 15.7.
TEST(Stats, MomentsAreTheMeanAndTheUnbiasedVariance) {
  EXPECT_DOUBLE_EQ(moments(values).mean, 13.2);
  EXPECT_DOUBLE_EQ(moments(values).variance, 15.7);
  EXPECT_EQ(moments(values).n, 5);
}

// The expected values are scipy.stats.t.ppf(0.975, 2), ppf(0.975, 4) and ppf(0.9, 3.5).
TEST(Stats, StudentsTQuantilesAgreeWithScipy) {
  EXPECT_NEAR(students_t_quantile(0.975, 2), 4.302652729749462, 1e-9);
  EXPECT_NEAR(students_t_quantile(0.975, 4), 2.7764451051977934, 1e-9);
  EXPECT_NEAR(students_t_quantile(0.9, 3.5), 1.5765766051364052, 1e-9);
}

// Expected values from Python: l = numpy.log([100, 104, 98, 103, 101]); numpy.exp(scipy.stats.t.interval(0.95, 4,
// loc=l.mean(), scale=scipy.stats.sem(l)))
TEST(Stats, IntervalOverLaunchesUsesStudentsTOnTheLogsOfTheirMedians) {
  const std::vector<std::vector<double>> launches = {{99, 100, 108}, {104}, {90, 98, 98}, {103, 103}, {101}};
  const Summary summary = summarise_samples(launches);
  EXPECT_EQ(summary.interval, IntervalOver::launches);
  EXPECT_EQ(summary.launches, 5);
  EXPECT_EQ(summary.n, 10);
  EXPECT_EQ(summary.median, 101);
  EXPECT_NEAR(summary.ci95_low.value(), 98.25159284624792, 1e-9);
  EXPECT_NEAR(summary.ci95_high.value(), 104.19037605685206, 1e-9);
}

TEST(Stats, TheSummaryIgnoresALaunchWithoutTimedBlocks) {
  const Summary summary = summarise_samples({{}, {100, 102}, {104, 106}});
  EXPECT_EQ(summary.launches, 2);
  EXPECT_EQ(summary.median, 103);
}

TEST(Stats, TwoLaunchesAreTooFewForAnIntervalOverLaunches) {
  EXPECT_EQ(summarise_samples({{100, 102}, {104, 106}}).interval, IntervalOver::samples);
  EXPECT_EQ(summarise_samples({{100, 102}, {104, 106}, {101, 103}}).interval, IntervalOver::launches);
}

TEST(Stats, ALaunchWithoutTimedBlocksHasNoMedian) {
  EXPECT_EQ(launch_medians({{}, {3, 1, 2}, {}}), std::vector<double>{2});
}

TEST(Stats, IntervalOverBlocksIsDeterministic) {
  const std::vector<std::vector<double>> launches = {{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}};
  const Summary first = summarise_samples(launches), second = summarise_samples(launches);
  EXPECT_EQ(first.interval, IntervalOver::samples);
  EXPECT_LT(first.ci95_low.value(), first.median);
  EXPECT_GT(first.ci95_high.value(), first.median);
  EXPECT_GE(first.ci95_low.value(), 10);
  EXPECT_LE(first.ci95_high.value(), 19);
  EXPECT_EQ(first.ci95_low, second.ci95_low);
  EXPECT_EQ(first.ci95_high, second.ci95_high);
}

TEST(Stats, ASingleTimedBlockHasNoInterval) { EXPECT_EQ(summarise_samples({{5}}).interval, IntervalOver::none); }

TEST(Stats, RefusesToSummariseAnEmptyList) {
  EXPECT_THROW(summarise_samples({}), std::runtime_error);
  EXPECT_THROW(summarise_samples({{}, {}}), std::runtime_error);
}

// Returns simulated step times. Each launch (process start) has its own level (2 % spread). The times of its blocks
// vary around that level (1 %) and drift slowly.
std::vector<std::vector<double>> simulated_launches(std::mt19937_64& generator, int launches) {
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> samples(launches);
  for (auto& launch : samples) {
    const double level = 0.02 * normal(generator);
    double drift = 0;
    for (int i = 0; i < 10; ++i) {
      drift = 0.7 * drift + 0.007 * normal(generator);
      launch.push_back(1e6 * std::exp(level + drift));
    }
  }
  return samples;
}

TEST(Stats, IntervalOverLaunchesCoversTheTrueValueIn95PercentOfExperiments) {
  std::mt19937_64 generator(1);
  for (const int launches : {3, 5, 10}) {
    int covered = 0;
    for (int experiment = 0; experiment < 1000; ++experiment) {
      const Summary summary = summarise_samples(simulated_launches(generator, launches));
      covered += summary.ci95_low <= 1e6 && 1e6 <= summary.ci95_high;
    }
    EXPECT_GE(covered, 930) << launches << " launches";
    EXPECT_LE(covered, 970) << launches << " launches";
  }
}

// With a single launch, the interval is a bootstrap over the launch's blocks. The blocks of this test are independent.
TEST(Stats, IntervalOverBlocksCoversTheMedianOfItsLaunchIn95PercentOfExperiments) {
  std::mt19937_64 generator(2);
  std::normal_distribution<double> normal(100, 1);
  int covered = 0;
  for (int experiment = 0; experiment < 1000; ++experiment) {
    std::vector<double> launch(30);
    for (double& value : launch) value = normal(generator);
    const Summary summary = summarise_samples({launch});
    covered += summary.ci95_low <= 100 && 100 <= summary.ci95_high;
  }
  EXPECT_GE(covered, 925);
  EXPECT_LE(covered, 985);
}

}  // namespace
}  // namespace dpbench
