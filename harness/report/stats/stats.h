// Statistics as pure functions. Figures in the units of their input.
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
double quantile(std::span<const double> values, double q);  // linear between order statistics, as numpy
double mad(std::span<const double> values);                 // median absolute deviation, unscaled

inline constexpr double mad_to_sigma = 1.4826;  // of a normal distribution: 1 / quantile(0.75)

struct Moments {
  double mean = 0, variance = 0;  // unbiased; 0 for one value
  int64_t n = 0;
};
Moments moments(std::span<const double> values);

struct Interval {
  double low = 0, high = 0;
};
double students_t_quantile(double probability, double degrees);
// 95 % for the geometric mean: Student's t on the logs. Values above 0, at least two.
Interval log_t_interval(std::span<const double> values);

// The level that an interval covers. launches: Student's t on the logs of launch medians. samples: a bootstrap, the
// launches taken as given. none: one sample a launch.
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
      Field{"median", "ns", &S::median, "of the launches' medians", range::above_zero},
      Field{"ci95_low", "ns", &S::ci95_low, "lower end of the 95 % interval", range::above_zero},
      Field{"ci95_high", "ns", &S::ci95_high, "upper end of the 95 % interval", range::above_zero},
      Field{"interval", "-", &S::interval, "the level that the interval covers"},
      Field{"p90", "ns", &S::p90, "of single steps: each launch's slowest rank, the middle launch", range::above_zero},
      Field{"p99", "ns", &S::p99, "likewise", range::above_zero},
      Field{"mad", "ns", &S::mad, "median absolute deviation of all blocks, unscaled", range::not_negative},
      Field{"n", "blocks", &S::n, "of all launches", range::positive},
      Field{"launches", "launches", &S::launches, "that have blocks", range::positive}};
};

// The median of every launch that has samples.
std::vector<double> launch_medians(const std::vector<std::vector<double>>& samples);
// samples[launch][sample]. With 3 launches or more the interval is over launches, else over the samples of the launches
// there are.
Summary summarise_samples(const std::vector<std::vector<double>>& samples);

}  // namespace dpbench
