#include "harness/worker/timing.h"

#include <algorithm>
#include <cmath>

#include "harness/report/stats.h"
#include "harness/worker/finite.h"
#include "harness/worker/memory.h"
#include "harness/worker/step_timer.h"

namespace dpbench {
namespace {

int64_t percentile(const std::vector<int64_t>& readings, double q) {
  const std::vector<double> values(readings.begin(), readings.end());
  return std::llround(quantile(values, q));
}

}  // namespace

RankRecord time_steps(Strategy& strategy, StepSource& source, const std::vector<int64_t>& recording, const Sampling& sampling,
                      const Group& group, Pulse& pulse, GpuWatch& gpus) {
  StepTimer timer(strategy, source, group, pulse);
  RankRecord record;
  record.rank = group.rank();
  source.prepare(0, sampling.warmup);
  const int64_t first = std::max<int64_t>(1, sampling.warmup / 2), rest = std::max<int64_t>(1, sampling.warmup - first);
  timer.watched_block(first);
  record.first_loss = timer.last_loss();
  timer.beside(recording);
  const double step_ns = static_cast<double>(timer.block(rest)) / static_cast<double>(rest);
  const int64_t steps = group.agree(steps_for(step_ns, sampling, source.steps_per_epoch()));
  source.prepare(first + rest, steps * sampling.samples);

  record.steps_per_sample = steps;
  record.rows_per_step = static_cast<double>(source.rows(first + rest, steps)) / static_cast<double>(steps);
  std::vector<int64_t> readings;
  readings.reserve(static_cast<size_t>(steps) * static_cast<size_t>(sampling.samples));
  double spent_s = 0;
  gpus.start();
  for (int i = 0; i < sampling.samples; ++i) {
    record.samples_ns.push_back(timer.block(steps, &readings));
    gpus.read();
    spent_s += static_cast<double>(record.samples_ns.back()) * 1e-9;
    const bool out_of_time = group.agree(spent_s > sampling.max_time_s) != 0;
    if (!out_of_time || i + 1 == sampling.samples) continue;
    record.warnings.push_back("stopped by --max-time after " + std::to_string(i + 1) + " of " +
                              std::to_string(sampling.samples) + " samples");
    break;
  }
  record.gpus = gpus.counters();
  record.step_p50_ns = percentile(readings, 0.5);
  record.step_p90_ns = percentile(readings, 0.9);
  record.step_p99_ns = percentile(readings, 0.99);
  record.last_loss = timer.last_loss();
  record.peak_rss_bytes = peak_memory_bytes();
  record.own_rss_bytes = own_peak_memory_bytes();
  require_finite(strategy, timer.step_index() - 1);  // that loss was known before the last update
  return record;
}

}  // namespace dpbench
