#include "harness/conform/scenario/other_state.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "harness/conform/evidence/widened.h"
#include "harness/conform/probes/drawn.h"
#include "workloads/base/hash.h"

namespace dpbench {
namespace {

// Fills a tensor of the optimizer's state with drawn values. Variances are large enough that no update is much larger
// than its learning rate.
void draw_slot(const std::string& name, at::Tensor& tensor, uint64_t seed, int64_t steps) {
  const auto slot = split_state_name(name).slot;
  if (!slot || !tensor.defined()) return;
  if (*slot == Slot::step) {
    tensor.fill_(steps);
    return;
  }
  const at::Tensor values =
      at::randn(tensor.sizes(), at::detail::createCPUGenerator(seed + fnv1a(name)), at::TensorOptions(at::kDouble)) *
      0.1;
  tensor.copy_(*slot == Slot::variance ? values.square() + 0.01 : values);
}

}  // namespace

Snapshot other_state(const Bench& bench, const Scenario& scenario, NamedTensors state) {
  const at::NoGradGuard no_grad;
  Snapshot other{.state = std::move(state)};
  const auto model = bench.workload.model(bench.init_seed(0) + 1);  // no rank's initial model has this seed
  for (const auto& item : model->named_parameters())
    other.parameters.emplace_back(item.key(), widened(item.value(), scenario.dtype));
  for (const auto& item : model->named_buffers()) {
    if (item.value().is_floating_point()) item.value().mul_(1.25).add_(0.125);
    other.buffers.emplace_back(item.key(), widened(item.value(), scenario.dtype));
  }
  const int64_t steps = scenario.first - drawn(bench.seed, 6, 1, scenario.first - 1);
  for (auto& [name, tensor] : other.state) draw_slot(name, tensor, bench.seed, steps);
  return other;
}

}  // namespace dpbench
