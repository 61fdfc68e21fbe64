// What the harness costs: the same training once as a case of dpbench and once as a loop written by hand with LibTorch
// alone. The arms alternate, block by block, so that their ratios hold on a noisy machine.
#include <benchmark/benchmark.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

#include "harness/worker/run_case.h"
#include "harness/worker/step_timer.h"
#include "tests/micro/team.h"

namespace dpbench::micro {
namespace {

using HandClock = std::chrono::steady_clock;
using Loss = at::Tensor (*)(const std::vector<at::Tensor>& parameters, const Batch& batch);

at::Tensor linear_loss(const std::vector<at::Tensor>& p, const Batch& batch) {
  return at::mse_loss(at::linear(batch.input, p[0], p[1]), batch.target);
}

at::Tensor mlp_loss(const std::vector<at::Tensor>& p, const Batch& batch) {
  const auto hidden = at::linear(batch.input.flatten(1), p[0], p[1]).relu_();
  return at::cross_entropy_loss(at::linear(hidden, p[2], p[3]), batch.target);
}

// The loop that somebody would write for one model and one optimizer.
class ByHand {
 public:
  ByHand(const Workload& workload, Loss loss, StepSource& source)
      : loss_(loss), source_(source), rate_(workload.optimizer().learning_rate) {
    for (const at::Tensor& tensor : workload.model(1)->parameters()) parameters_.push_back(tensor);
  }

  int64_t block(int64_t steps) {
    const auto begin = HandClock::now();
    for (int64_t i = 0; i < steps; ++i) {
      for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
      loss_(parameters_, source_.at(step_++).front()).backward();
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
      const at::NoGradGuard no_grad;
      at::_fused_sgd_(parameters_, gradients, {}, 0, 0, rate_, 0, false, false, false);
    }
    return std::chrono::nanoseconds(HandClock::now() - begin).count();
  }

 private:
  Loss loss_;
  StepSource& source_;
  double rate_;
  std::vector<at::Tensor> parameters_;
  int64_t step_ = 0;
};

struct HandArm {
  const char* name;
  std::function<int64_t(int64_t)> block;
  std::vector<double> us = {};
};

double median_of(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void run_by_hand(benchmark::State& state, const CaseSpec& spec, Loss loss, int64_t steps) {
  const StrategyInfo& info = strategy_registry().at(spec.strategy);
  const auto workload = workload_of(spec, "");
  Variables one;
  one.backend = "none", one.device = "cpu";
  const Group alone(one);
  Pulse pulse("", 0);
  StepSource source(*workload, spec, info, 0);
  source.prepare(0, source.steps_per_epoch());
  const auto strategy = info.make(setup_of(spec, info, *workload, alone));
  StepTimer plain(*strategy, source, alone, pulse), phased(*strategy, source, alone, pulse);
  phased.phases = Phases(true);
  ByHand by_hand(*workload, loss, source);
  std::vector<int64_t> readings;
  HandArm arms[] = {{"by_hand", [&](int64_t count) { return by_hand.block(count); }},
                    {"case", [&](int64_t count) { return readings.clear(), plain.block(count, &readings); }},
                    {"phases", [&](int64_t count) { return readings.clear(), phased.block(count, &readings); }}};
  for (HandArm& arm : arms) arm.block(steps);
  std::vector<double> cases, phases;
  size_t first = 0;
  for (auto _ : state) {
    for (size_t i = 0; i < 3; ++i) {  // the order is a part of the machine's noise
      HandArm& arm = arms[(first + i) % 3];
      arm.us.push_back(static_cast<double>(arm.block(steps)) / 1e3 / static_cast<double>(steps));
    }
    ++first;
    cases.push_back(arms[1].us.back() / arms[0].us.back());
    phases.push_back(arms[2].us.back() / arms[1].us.back());
  }
  for (const HandArm& arm : arms) state.counters[std::string(arm.name) + "_us"] = median_of(arm.us);
  state.counters["case/by_hand"] = median_of(cases);
  state.counters["phases/case"] = median_of(phases);
}

}  // namespace

void add_by_hand(const Team& team) {
  const struct {
    const char* workload;
    Loss loss;
    int64_t batch, steps;
  } kinds[] = {{"random-linear", linear_loss, 30, 200}, {"mnist-mlp", mlp_loss, 64, 20}};
  for (const auto& kind : kinds)
    benchmark::RegisterBenchmark((std::string("step_by_hand/") + kind.workload).c_str(),
                                 [rank = team.rank(), kind](benchmark::State& state) {
                                   CaseSpec spec;
                                   spec.strategy = "cpu", spec.workload = kind.workload, spec.batch = kind.batch;
                                   if (rank == 0) return run_by_hand(state, spec, kind.loss, kind.steps);
                                   for (auto _ : state) continue;
                                 })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(201);
}

}  // namespace dpbench::micro
