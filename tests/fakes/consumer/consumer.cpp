// A third-party program that trains one step of an installed workload with an installed strategy, and registers its own
// strategy.
#include <cstdio>

#include <ATen/ops/arange.h>

#include "strategies/api/strategy.h"
#include "workloads/api/workload.h"

namespace {

const dpbench::RegisterStrategy own{
    {.name = "consumer", .summary = "a third-party strategy", .make = dpbench::strategy_registry().at("cpu").make}};

double first_loss() {
  const auto workload = dpbench::workload_registry().at("random-linear").make({});
  const dpbench::StrategyInfo& cpu = dpbench::strategy_registry().at("cpu");
  const dpbench::Setup setup{
      .workload = *workload, .devices = {at::kCPU}, .params = dpbench::Params(cpu.params, {}, "cpu"), .clip_norm = {}};
  const auto strategy = cpu.make(setup);
  const dpbench::Batch batch = workload->batch(at::arange(10));
  dpbench::Phases phases;
  return strategy->step(0, {&batch, 1}, phases).loss.item<double>();
}

}  // namespace

int main() {
  const double loss = first_loss();
  std::printf("consumer: %zu strategies, loss %g\n", dpbench::strategy_registry().all().size(), loss);
  return loss > 0 && dpbench::strategy_registry().find("consumer") ? 0 : 1;
}
