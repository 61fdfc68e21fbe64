#include "strategies/fsdp/unit_plan.h"

#include <algorithm>
#include <span>

#include "strategies/parts/parameter_table.h"

namespace dpbench::fsdp {

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
      plan.units.push_back({blocks[first].name, {first, last}, stage});
      first = last;
    }
  if (blocks.empty()) plan.units.push_back({.name = "model"});
  for (const TableRow& row : parameter_table(model)) {
    std::vector<PlannedUnit*> users;
    for (PlannedUnit& unit : plan.units)
      if (blocks.empty() || row.used_in(unit.blocks.first, unit.blocks.last)) users.push_back(&unit);
    (users.size() == 1 ? *users[0] : plan.root).parameters.push_back(row.tensor);
  }
  return plan;
}

}  // namespace dpbench::fsdp
