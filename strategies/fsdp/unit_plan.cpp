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

std::pair<size_t, size_t> UnitPlan::units_of(size_t stage) const {
  const auto same = std::ranges::equal_range(units, stage, {}, &PlannedUnit::stage);
  const auto first = static_cast<size_t>(same.begin() - units.begin());
  return {first, first + same.size()};
}

UnitPlan plan_units(const Model& model, int64_t blocks_per_unit, std::vector<Span> stages) {
  const std::span<const Block> blocks = model.blocks();
  if (stages.empty()) stages = {{0, blocks.size()}};
  UnitPlan plan{.units = {}, .root = {.name = "root"}};
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (size_t first = stages[stage].first; first < stages[stage].last;) {
      const size_t last = std::min(stages[stage].last, first + static_cast<size_t>(blocks_per_unit));
      plan.units.push_back(
          {blocks[first].name, {first, last}, stage, block_parameters(blocks.subspan(first, last - first))});
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
