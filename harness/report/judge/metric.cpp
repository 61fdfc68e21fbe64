#include "harness/report/judge/metric.h"
#include "harness/report/figures/summarise.h"

#include <algorithm>
#include <cmath>

namespace dpbench {
namespace {

using Logs = std::vector<double>;

Logs logs_of(const CaseRecord& record, double (*value)(const LaunchRecord&)) {
  Logs logs;
  for (const LaunchRecord& launch : record.launches)
    if (const double v = value(launch); v > 0) logs.push_back(std::log(v));
  return logs;
}

double launch_median(const LaunchRecord& launch) {
  const auto samples = sample_step_ns(launch);
  return samples.empty() ? 0 : median(samples);
}

double largest(const LaunchRecord& launch, int64_t RankRecord::* of) {
  int64_t most = 0;
  for (const RankRecord& rank : launch.ranks) most = std::max(most, rank.*of);
  return static_cast<double>(most);
}

double launch_p99(const LaunchRecord& launch) { return largest(launch, &RankRecord::step_p99_ns); }

double launch_memory(const LaunchRecord& launch) {
  const double device = largest(launch, &RankRecord::peak_device_bytes);
  if (device > 0) return device;
  const double own = largest(launch, &RankRecord::own_rss_bytes);
  return own > 0 ? own : largest(launch, &RankRecord::peak_rss_bytes);
}

// One factor of a metric's value: exp(coefficient * mean of logs). Each log is the logarithm of one launch's figure,
// such as its median step time. A launch is a start of the case's processes.
struct Part {
  double coefficient;
  Logs logs;
};

std::optional<Figure> figure(double factor, const std::vector<Part>& parts) {
  Figure result{.value = factor, .terms = {}};
  for (const auto& [coefficient, logs] : parts) {
    if (logs.empty()) return std::nullopt;
    result.terms.push_back({coefficient, moments(logs)});
    result.value *= std::exp(coefficient * result.terms.back().moments.mean);
  }
  return result;
}

std::optional<Figure> median_figure(const Report&, const CaseRecord& r) {
  return figure(1, {{1, logs_of(r, launch_median)}});
}
std::optional<Figure> p99_figure(const Report&, const CaseRecord& r) {
  return figure(1, {{1, logs_of(r, launch_p99)}});
}
std::optional<Figure> memory_figure(const Report&, const CaseRecord& r) {
  return figure(1, {{1, logs_of(r, launch_memory)}});
}

std::optional<Figure> throughput_figure(const Report&, const CaseRecord& r) {
  return figure(rows_per_step(r) * 1e9, {{-1, logs_of(r, launch_median)}});
}

// Returns the median over a launch's blocks of (time of the case's block / time of the reference's block beside it); 0
// if the blocks are not paired.
double launch_ratio(const LaunchRecord& launch) {
  const auto own = sample_step_ns(launch);
  if (own.empty() || own.size() != launch.reference_ns.size()) return 0;
  std::vector<double> ratios;
  for (size_t i = 0; i < own.size(); ++i) ratios.push_back(own[i] / launch.reference_ns[i]);
  return median(ratios);
}

// Returns the logarithm of launch_ratio() for each launch; an empty list unless every launch is paired with blocks of
// the baseline.
Logs paired_logs(const Report& report, const CaseRecord& r) {
  if (!reference_name(report).empty()) return {};
  Logs logs = logs_of(r, launch_ratio);
  return logs.size() == logs_of(r, launch_median).size() ? logs : Logs();
}

std::optional<Figure> ratio_figure(const Report& report, const CaseRecord& r) {
  const CaseRecord* baseline = baseline_of(report, r.spec);
  if (!baseline) return std::nullopt;
  if (const Logs paired = paired_logs(report, r); !paired.empty()) return figure(1, {{1, paired}});
  return figure(1, {{1, logs_of(r, launch_median)}, {-1, logs_of(*baseline, launch_median)}});
}

std::optional<Figure> efficiency_figure(const Report& report, const CaseRecord& r) {
  const CaseRecord* baseline = baseline_of(report, r.spec);
  if (!baseline) return std::nullopt;
  const double rows = rows_per_step(r) / rows_per_step(*baseline);
  if (const Logs paired = paired_logs(report, r); !paired.empty()) return figure(rows / r.spec.world, {{-1, paired}});
  return figure(rows / r.spec.world, {{-1, logs_of(r, launch_median)}, {1, logs_of(*baseline, launch_median)}});
}

struct Entry {
  Metric metric;
  std::optional<Figure> (*figure)(const Report&, const CaseRecord&);
};

constexpr LimitUnit times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
constexpr LimitUnit sizes[] = {{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
constexpr LimitUnit rates[] = {{"", 1}}, ratios[] = {{"", 1}, {"x", 1}}, percents[] = {{"%", 0.01}};

// The table of metrics: for each, the values of a Metric's members, in their order, and the function that computes the
// metric's figure.
const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {{"median", "STEP", true, false, false, "SLOWER", "faster", 1e-6, "ms", times}, median_figure},
      {{"p99", "P99", true, false, false, "SLOWER", "faster", 1e-6, "ms", times}, p99_figure},
      {{"throughput", "THROUGHPUT", false, false, false, "SLOWER", "faster", 1, "samples/s", rates}, throughput_figure},
      {{"efficiency", "EFFICIENCY", false, true, true, "LOWER", "higher", 100, "%", percents}, efficiency_figure},
      {{"peak-memory", "MEMORY", true, false, false, "LARGER", "smaller", 1.0 / (1 << 20), "MiB", sizes},
       memory_figure},
      {{"ratio-to-baseline", "RATIO", true, false, true, "SLOWER", "faster", 1, "x", ratios}, ratio_figure},
  };
  return all;
}

}  // namespace

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = [] {
    std::vector<Metric> list;
    for (const Entry& entry : entries()) list.push_back(entry.metric);
    return list;
  }();
  return all;
}

const Metric* find_metric(const std::string& name) {
  const auto found = std::find_if(metrics().begin(), metrics().end(), [&](const Metric& m) { return m.name == name; });
  return found == metrics().end() ? nullptr : &*found;
}

std::optional<Figure> figure_of(const Metric& metric, const Report& report, const CaseRecord& record) {
  return entries()[static_cast<size_t>(&metric - metrics().data())].figure(report, record);
}

bool comparable_figures(const Metric& metric, const CaseRecord& base, const CaseRecord& now) {
  const auto has_own_memory = [](const CaseRecord& record) {
    return std::any_of(record.launches.begin(), record.launches.end(), [](const LaunchRecord& launch) {
      return largest(launch, &RankRecord::own_rss_bytes) > 0 || largest(launch, &RankRecord::peak_device_bytes) > 0;
    });
  };
  return find_metric("peak-memory") != &metric || has_own_memory(base) == has_own_memory(now);
}

Change change_between(const Metric& metric, const Figure& base, const Figure& now) {
  const double sign = metric.larger_is_worse ? 1 : -1;
  // A metric's terms are means of logarithms, so the change is one of logarithms. Multiplied by 100 times the metric's
  // value, it becomes a change in percentage points (delta method).
  const auto weight = [&](const Figure& figure) { return metric.in_points ? 100 * figure.value : 1; };
  std::vector<Term> terms;
  for (const Figure* figure : {&base, &now})
    for (Term term : figure->terms) {
      term.coefficient *= weight(*figure);
      terms.push_back(term);
    }
  const double estimate = metric.in_points ? 100 * (now.value - base.value) : std::log(now.value / base.value);
  return welch_change(sign * estimate, terms);
}

}  // namespace dpbench
