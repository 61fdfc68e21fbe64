#include "harness/micro/case_steps.h"

#include "harness/report/stats/stats.h"

namespace dpbench::micro {
namespace {

Variables single_rank() {
  Variables variables;
  variables.backend = no_backend, variables.device = Device::cpu;
  return variables;
}

}  // namespace

CaseSpec cpu_case(const std::string& workload, int64_t batch) {
  CaseSpec spec;
  spec.strategy = "cpu", spec.workload = workload, spec.batch = batch;
  return spec;
}

CaseSteps::CaseSteps(const CaseSpec& spec)
    : info_(strategy_registry().at(spec.strategy)),
      workload_(workload_of(spec, "")),
      group_(single_rank()),
      source_(*workload_, spec, info_, 0),
      strategy_(info_.make(setup_of(spec, info_, *workload_, group_))),
      timer_(*strategy_, source_, group_, pulse_) {
  source_.prepare(0, source_.steps_per_epoch());
}

int64_t CaseSteps::block(int64_t steps, bool phases) {
  timer_.phases.switch_on(phases);
  readings_.clear();
  return timer_.block(steps, &readings_);
}

void alternate(benchmark::State& state, std::vector<StepArm> arms, int64_t steps) {
  for (StepArm& arm : arms) arm.block();
  std::vector<std::vector<double>> ratios(arms.size());
  size_t first = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (size_t i = 0; i < arms.size(); ++i) {  // Rotate the order of the variants, because it affects their times.
      StepArm& arm = arms[(first + i) % arms.size()];
      arm.us.push_back(static_cast<double>(arm.block()) / 1e3 / static_cast<double>(steps));
    }
    ++first;
    for (size_t i = 1; i < arms.size(); ++i) ratios[i].push_back(arms[i].us.back() / arms[i - 1].us.back());
  }
  for (size_t i = 0; i < arms.size(); ++i) {
    state.counters[std::string(arms[i].name) + "_us"] = median(arms[i].us);
    if (i > 0) state.counters[std::string(arms[i].name) + "/" + arms[i - 1].name] = median(ratios[i]);
  }
}

void add_steps(const Team& team, const std::string& name, int64_t blocks,
               const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [rank = team.rank(), run](benchmark::State& state) {
                                 if (rank == 0) return run(state);
                                 for ([[maybe_unused]] auto _ : state) continue;
                               })
      ->Unit(benchmark::kMillisecond)
      ->Iterations(blocks);
}

}  // namespace dpbench::micro
