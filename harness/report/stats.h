// Statistics as pure functions. Figures in the units of their input.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

struct Summary {
  double median = 0;  // of the launches' medians
  double ci95_low = 0, ci95_high = 0;
  double mad = 0, p90 = 0, p99 = 0;  // of all samples
  int64_t n = 0;                     // samples
  int launches = 0;
  // The level that the interval covers: "launches" (Student t on the logs of launch medians), "samples" (bootstrap; the
  // launches are taken as given), or "none" (one sample a launch: the ends are the median).
  std::string interval;
};

// The median of every launch that has samples.
std::vector<double> launch_medians(const std::vector<std::vector<double>>& samples);
// samples[launch][sample]. With 3 launches or more the interval is over launches, else over the samples of the launches
// there are.
Summary summarise_samples(const std::vector<std::vector<double>>& samples);

}  // namespace dpbench
