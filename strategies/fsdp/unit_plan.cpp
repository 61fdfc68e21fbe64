#include "strategies/fsdp/unit_plan.h"

#include <algorithm>
#include <span>

#include "workloads/blocks/block_parameters.h"

namespace dpbench::fsdp {
namespace {

bool holds(const std::vector<at::Tensor>& tensors, const at::Tensor& tensor) {
  return std::ranges::any_of(tensors, [&](const at::Tensor& other) { return other.is_same(tensor); });
}

}  // namespace

UnitPlan plan_units(const Model& model, int64_t blocks_per_unit) {
  const std::span<const Block> blocks = model.blocks();
  UnitPlan plan{.units = {}, .root = {.name = "root"}};
  for (size_t first = 0; first < blocks.size();) {
    const size_t last = std::min(blocks.size(), first + static_cast<size_t>(blocks_per_unit));
    plan.units.push_back({blocks[first].name, first, last, block_parameters(blocks.subspan(first, last - first))});
    first = last;
  }
  if (blocks.empty()) plan.units.push_back({.name = "model"});
  std::vector<at::Tensor> known;
  for (const at::Tensor& parameter : model.parameters()) {
    if (holds(known, parameter)) continue;
    known.push_back(parameter);
    const auto users =
        std::ranges::count_if(plan.units, [&](const PlannedUnit& unit) { return holds(unit.parameters, parameter); });
    if (blocks.empty())
      plan.units[0].parameters.push_back(parameter);
    else if (users != 1)
      plan.root.parameters.push_back(parameter);
  }
  for (PlannedUnit& unit : plan.units)
    std::erase_if(unit.parameters, [&](const at::Tensor& one) { return holds(plan.root.parameters, one); });
  return plan;
}

}  // namespace dpbench::fsdp
