// Statistics (median, quantiles, confidence intervals) as pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/base/field.h"
#include "workloads/base/names.h"

namespace dpbench {

double median(std::span<const double> values);
// Quantile with linear interpolation between order statistics, as in numpy.
double quantile(std::span<const double> values, double q);
double mad(std::span<const double> values);  // median absolute deviation, unscaled

// Factor from MAD to standard deviation for a normal distribution: 1 / (its 0.75 quantile).
inline constexpr double mad_to_sigma = 1.4826;

struct Moments {
  double mean = 0, variance = 0;  // unbiased variance; 0 for a single value
  int64_t n = 0;
};
Moments moments(std::span<const double> values);

struct Interval {
  double low = 0, high = 0;
};
// Minimum number of launches (starts of a case's processes) for a confidence interval that covers the variation between
// launches.
inline constexpr int launches_for_t = 3;
double students_t_quantile(double probability, double degrees);
// Returns the 95 % confidence interval of the geometric mean, from Student's t on the logs. Needs at least two values,
// all above 0.
Interval log_t_interval(std::span<const double> values);

// Returns an interval between two order statistics that contains the median with at least 95 % confidence, for any
// distribution. With fewer than six values, the interval is their whole range and the confidence is lower.
Interval median_interval(std::span<const double> values);

// The variation that a confidence interval covers. launches: variation between launches (starts of the case's
// processes), by Student's t on the logs of launch medians. samples: only between timed blocks, by a bootstrap with the
// launches fixed. none: no interval, because there are fewer than three launches and each has only one block.
enum class IntervalOver { launches, samples, none };
template <>
inline constexpr auto enum_names<IntervalOver> = std::to_array<std::string_view>({"launches", "samples", "none"});

struct Summary {
  double median = 0;
  std::optional<double> ci95_low{}, ci95_high{};
  IntervalOver interval = IntervalOver::none;
  double p90 = 0, p99 = 0, mad = 0;
  int64_t n = 0;
  int launches = 0;
};

template <>
struct Table<Summary> {
  using S = Summary;
  static constexpr const char* name = "summary";
  static constexpr std::tuple fields{
      Field{"median", "ns", &S::median, "median over launches of each launch's median step time", range::above_zero},
      Field{"ci95_low", "ns", &S::ci95_low, "lower bound of the median's 95 % confidence interval", range::above_zero},
      Field{"ci95_high", "ns", &S::ci95_high, "upper bound of the median's 95 % confidence interval",
            range::above_zero},
      Field{
          "interval", "-", &S::interval,
          "variation that the interval covers: between launches, between samples (blocks) only, or none (no interval)"},
      Field{"p90", "ns", &S::p90,
            "90th percentile of single step times: slowest rank of each launch, median over launches",
            range::above_zero},
      Field{"p99", "ns", &S::p99, "99th percentile of single step times, taken the same way", range::above_zero},
      Field{"mad", "ns", &S::mad, "median absolute deviation of the step times of all blocks, unscaled",
            range::not_negative},
      Field{"n", "blocks", &S::n, "number of blocks in all launches", range::positive},
      Field{"launches", "launches", &S::launches, "number of launches with at least one block", range::positive}};
};

// Returns the median over the blocks of each launch (start of the case's processes). Launches without blocks are left
// out.
std::vector<double> launch_medians(const std::vector<std::vector<double>>& samples);
// Summarises step times, samples[launch][block]. With 3 or more launches the confidence interval covers the variation
// between launches, else only between the blocks of the given launches.
Summary summarise_samples(const std::vector<std::vector<double>>& samples);

}  // namespace dpbench
