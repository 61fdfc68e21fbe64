#include "harness/worker/steps/step_timer.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include <ATen/ATen.h>
#include <torch/cuda.h>

namespace dpbench {
namespace {

using Clock = std::chrono::steady_clock;

int64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
}

void synchronise(const StepResult& result) {
  if (result.loss.defined() && result.loss.is_cuda()) torch::cuda::synchronize(result.loss.get_device());
}

}  // namespace

void StepTimer::next_step() {
  phases.enter(Phase::data);
  const auto micro = source_.at(step_);
  result_ = {};  // free the previous step's result first, so that the next step reuses its cached memory
  result_ = strategy_.step(step_, micro, phases);
  phases.leave();
  pulse_.step();
  ++step_;
}

int64_t StepTimer::block(int64_t count, std::vector<int64_t>* readings, int64_t untimed) {
  group_.barrier();
  for (int64_t i = 0; i < untimed; ++i) next_step();
  if (untimed > 0) synchronise(result_);
  const auto start = Clock::now();
  auto before = start;
  for (int64_t i = 0; i < count; ++i) {
    next_step();
    const auto now = Clock::now();
    if (readings) readings->push_back(ns_between(before, now));
    before = now;
  }
  synchronise(result_);
  strategy_.buffers();
  return ns_between(start, Clock::now());
}

void StepTimer::checked_block(int64_t count) {
  group_.barrier();
  for (int64_t i = 0; i < count; ++i) checked_step(step_++);
  strategy_.buffers();
}

void StepTimer::run_extra(const std::vector<int64_t>& steps) {
  for (const int64_t step : steps) {
    source_.prepare(step, 1);
    checked_step(step);
  }
  strategy_.buffers();
}

void StepTimer::checked_step(int64_t step) {
  const auto micro = source_.at(step);
  result_ = {};  // free the previous step's result first, so that the next step reuses its cached memory
  result_ = strategy_.step(step, micro, phases);
  pulse_.step();
  require_number(step, "");
}

double StepTimer::last_loss() const { return require_number(step_ - 1, ", or of one before it,"); }

double StepTimer::require_number(int64_t step, const char* since) const {
  const double loss = result_.loss.item<double>();
  if (!std::isfinite(loss))
    throw std::domain_error("the loss of step " + std::to_string(step) + since + " is " + std::to_string(loss));
  return loss;
}

int64_t steps_for(double step_ns, const Sampling& sampling, int64_t steps_per_epoch) {
  if (sampling.steps > 0) return sampling.steps;
  constexpr int64_t short_epoch = 16;
  const auto steps = std::max<int64_t>(1, std::llround(std::ceil(sampling.min_sample_s * 1e9 / step_ns)));
  if (steps_per_epoch > short_epoch) return steps;
  return (steps + steps_per_epoch - 1) / steps_per_epoch * steps_per_epoch;
}

}  // namespace dpbench
