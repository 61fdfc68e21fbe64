#include "harness/worker/timing.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include "harness/report/stats.h"

namespace dpbench {
namespace {

using Clock = std::chrono::steady_clock;

int64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
}

void synchronise(const StepResult& result) {
  if (result.loss.defined() && result.loss.is_cuda()) torch::cuda::synchronize(result.loss.get_device());
}

class Timer {
 public:
  Timer(Strategy& strategy, StepSource& source, const Group& group, Pulse& pulse)
      : strategy_(strategy), source_(source), group_(group), pulse_(pulse) {}

  // Nanoseconds of `count` steps between barriers; the clock of every step goes to `readings`.
  int64_t block(int64_t count, std::vector<int64_t>* readings = nullptr) {
    group_.barrier();
    const auto start = Clock::now();
    auto before = start;
    for (int64_t i = 0; i < count; ++i) {
      phases.enter(Phase::data);
      const auto micro = source_.at(step_);
      result = strategy_.step(step_, micro, phases);
      phases.leave();
      pulse_.step();
      ++step_;
      const auto now = Clock::now();
      if (readings) readings->push_back(ns_between(before, now));
      before = now;
    }
    synchronise(result);
    return ns_between(start, Clock::now());
  }

  int64_t step_index() const { return step_; }

  Phases phases;
  StepResult result;

 private:
  Strategy& strategy_;
  StepSource& source_;
  const Group& group_;
  Pulse& pulse_;
  int64_t step_ = 0;
};

double last_loss(const Timer& timer) {
  const double loss = timer.result.loss.item<double>();
  if (!std::isfinite(loss))
    throw std::domain_error("the loss of step " + std::to_string(timer.step_index() - 1) + " is " + std::to_string(loss));
  return loss;
}

// As many steps as the shortest sample may take; whole epochs where they are short, so that samples are alike.
int64_t steps_for(double step_ns, const Sampling& sampling, int64_t steps_per_epoch) {
  if (sampling.steps > 0) return sampling.steps;
  constexpr int64_t short_epoch = 16;
  const auto steps = std::max<int64_t>(1, std::llround(std::ceil(sampling.min_sample_s * 1e9 / step_ns)));
  if (steps_per_epoch > short_epoch) return steps;
  return (steps + steps_per_epoch - 1) / steps_per_epoch * steps_per_epoch;
}

int64_t percentile(const std::vector<int64_t>& readings, double q) {
  const std::vector<double> values(readings.begin(), readings.end());
  return std::llround(quantile(values, q));
}

void record_phases(RankRecord& record, Timer& timer, int64_t steps) {
  timer.phases.switch_on(true);
  timer.block(steps);
  timer.phases.switch_on(false);
  for (size_t i = 0; i < phase_names.size(); ++i)
    if (const auto ns = timer.phases.total_ns()[i]; ns != 0)
      record.phases_ns[std::string(phase_names[i])] = static_cast<double>(ns) / static_cast<double>(steps);
}

}  // namespace

RankRecord time_steps(Strategy& strategy, StepSource& source, const Sampling& sampling, const Group& group, Pulse& pulse) {
  Timer timer(strategy, source, group, pulse);
  RankRecord record;
  record.rank = group.rank();
  source.prepare(0, sampling.warmup);
  const int64_t first = std::max<int64_t>(1, sampling.warmup / 2), rest = std::max<int64_t>(1, sampling.warmup - first);
  timer.block(first);
  record.first_loss = last_loss(timer);
  const double step_ns = static_cast<double>(timer.block(rest)) / static_cast<double>(rest);
  const int64_t steps = group.agree(steps_for(step_ns, sampling, source.steps_per_epoch()));
  source.prepare(first + rest, steps * (sampling.samples + 1));

  record.steps_per_sample = steps;
  record.rows_per_step = static_cast<double>(source.rows(first + rest, steps)) / static_cast<double>(steps);
  std::vector<int64_t> readings;
  readings.reserve(static_cast<size_t>(steps) * static_cast<size_t>(sampling.samples));
  double spent_s = 0;
  for (int i = 0; i < sampling.samples; ++i) {
    record.samples_ns.push_back(timer.block(steps, &readings));
    spent_s += static_cast<double>(record.samples_ns.back()) * 1e-9;
    const bool out_of_time = group.agree(spent_s > sampling.max_time_s) != 0;
    if (!out_of_time || i + 1 == sampling.samples) continue;
    record.warnings.push_back("stopped by --max-time after " + std::to_string(i + 1) + " of " +
                              std::to_string(sampling.samples) + " samples");
    break;
  }
  record.step_p50_ns = percentile(readings, 0.5);
  record.step_p90_ns = percentile(readings, 0.9);
  record.step_p99_ns = percentile(readings, 0.99);
  record.last_loss = last_loss(timer);
  record_phases(record, timer, steps);
  return record;
}

}  // namespace dpbench
