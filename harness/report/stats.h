// Statistics as pure functions. Figures in the units of their input.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dpbench {

double median(std::span<const double> values);
double quantile(std::span<const double> values, double q);   // linear between order statistics, as numpy
double mad(std::span<const double> values);                  // median absolute deviation, unscaled

struct Summary {
  double median = 0, ci95_low = 0, ci95_high = 0, mad = 0, p90 = 0, p99 = 0;
  int64_t n = 0;          // samples
  int launches = 0;
  std::string interval;   // the level it covers: "launches" (Student t on the logs of launch medians) or "samples" (bootstrap)
};

// samples[launch][sample]. With 3 launches or more the interval is over launches, else over the samples of the launches there are.
Summary summarise_samples(const std::vector<std::vector<double>>& samples);

}  // namespace dpbench
