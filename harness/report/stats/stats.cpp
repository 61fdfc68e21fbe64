#include "harness/report/stats/stats.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <random>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr int resamples = 2000;

std::vector<double> pooled(const std::vector<std::vector<double>>& samples) {
  std::vector<double> all;
  for (const auto& launch : samples) all.insert(all.end(), launch.begin(), launch.end());
  return all;
}

double median_of_medians(const std::vector<std::vector<double>>& samples) { return median(launch_medians(samples)); }

// Returns a random index below n. Unlike uniform_int_distribution, the result is the same on every standard library.
size_t below(std::mt19937_64& generator, size_t n) { return static_cast<size_t>(generator() % n); }

// Returns a percentile bootstrap interval for the median of launch medians: draws blocks at random within each launch.
// The BCa bootstrap is not used because its jackknife is invalid for a median.
Interval bootstrap_interval(const std::vector<std::vector<double>>& samples) {
  std::mt19937_64 generator(0x64706265);
  std::vector<double> medians(resamples);
  auto drawn = samples;
  for (double& result : medians) {
    for (size_t launch = 0; launch < samples.size(); ++launch)
      for (double& value : drawn[launch]) value = samples[launch][below(generator, samples[launch].size())];
    result = median_of_medians(drawn);
  }
  return {quantile(medians, 0.025), quantile(medians, 0.975)};
}

}  // namespace

double quantile(std::span<const double> values, double q) {
  check(!values.empty(), "a quantile needs at least one value");
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

double mad(std::span<const double> values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return median(distances);
}

double students_t_quantile(double probability, double degrees) {
  return boost::math::quantile(boost::math::students_t(degrees), probability);
}

Moments moments(std::span<const double> values) {
  check(!values.empty(), "a mean needs at least one value");
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const auto n = static_cast<double>(values.size());
  const double mean = sum / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, n > 1 ? squares / (n - 1) : 0, static_cast<int64_t>(values.size())};
}

Interval log_t_interval(std::span<const double> values) {
  check(values.size() > 1, "an interval needs two values");
  std::vector<double> logs;
  for (const double value : values) logs.push_back(std::log(value));
  const Moments m = moments(logs);
  const auto n = static_cast<double>(m.n);
  const double half = students_t_quantile(0.975, n - 1) * std::sqrt(m.variance / n);
  return {std::exp(m.mean - half), std::exp(m.mean + half)};
}

Interval median_interval(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  const auto probability = [&](double k) {  // probability that exactly k of n values are below the median
    return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) - n * std::log(2.0));
  };
  size_t outside = 0;
  double tail = probability(0);
  while (tail <= 0.025 && 2 * (outside + 1) < sorted.size()) tail += probability(static_cast<double>(++outside));
  const size_t cut = outside > 0 ? outside - 1 : 0;
  return {sorted[cut], sorted[sorted.size() - 1 - cut]};
}

std::vector<double> launch_medians(const std::vector<std::vector<double>>& samples) {
  std::vector<double> medians;
  for (const auto& launch : samples)
    if (!launch.empty()) medians.push_back(median(launch));
  return medians;
}

Summary summarise_samples(const std::vector<std::vector<double>>& samples) {
  std::vector<std::vector<double>> launches;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(launches), [](const auto& l) { return !l.empty(); });
  check(!launches.empty(), "no samples to summarise");
  const std::vector<double> all = pooled(launches);
  const std::vector<double> medians = launch_medians(launches);
  Summary summary{.median = median(medians),
                  .p90 = quantile(all, 0.9),
                  .p99 = quantile(all, 0.99),
                  .mad = mad(all),
                  .n = static_cast<int64_t>(all.size()),
                  .launches = static_cast<int>(launches.size())};
  if (summary.launches >= launches_for_t)
    summary.interval = IntervalOver::launches;
  else if (summary.n > summary.launches)
    summary.interval = IntervalOver::samples;
  if (summary.interval == IntervalOver::none) return summary;
  const Interval interval =
      summary.interval == IntervalOver::launches ? log_t_interval(medians) : bootstrap_interval(launches);
  summary.ci95_low = interval.low;
  summary.ci95_high = interval.high;
  return summary;
}

}  // namespace dpbench
