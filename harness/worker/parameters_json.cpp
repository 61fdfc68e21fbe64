#include "harness/worker/parameters_json.h"

#include <algorithm>
#include <string>
#include <vector>

#include "strategies/parts/parameter_table.h"
#include "workloads/api/workload.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Returns how a parameter lies on the ranks. cuts: the parameters that are cut; if empty, the model is not divided.
// partial: the parameters that are not cut but have gradients that are summed over ranks.
Json placement(const std::vector<TensorCut>& cuts, const std::vector<std::string>& partial, const std::string& name) {
  if (cuts.empty()) return nullptr;
  if (const auto cut = std::ranges::find(cuts, name, &TensorCut::name); cut != cuts.end())
    return "cut in dimension " + std::to_string(cut->dim);
  return std::ranges::count(partial, name) > 0 ? "whole, gradients summed" : "whole";
}

// Returns the name of the parameter's unit under fsdp with fsdp.unit=1, its default: the only block that uses the
// parameter, or "root" if several blocks or none do. A model without blocks is one unit.
std::string unit_of(const TableRow& row, const Model& model) {
  if (model.blocks().empty()) return "model";
  return row.blocks.size() == 1 ? model.blocks()[row.blocks[0]].name : "root";
}

// Calls `make`, which returns how a model is divided among ranks. Returns an empty object if `make` throws UsageError
// because the model cannot be divided.
template <class Make>
auto plan_of(const Make& make) -> decltype(make()) {
  try {
    return make();
  } catch (const UsageError&) {
    return {};
  }
}

}  // namespace

Json parameters_json(const std::string& workload, const std::string& model) {
  const auto owner = workload_registry().at(workload).make({.model = model});
  const auto made = owner->model(/*seed=*/1);
  const TensorPlan tensor = plan_of([&] { return made->tensor_plan(ranks_of_placement); });
  const ExpertPlan experts = plan_of([&] { return made->expert_plan(ranks_of_placement); });
  Json rows = Json::array();
  for (const TableRow& row : parameter_table(*made)) {
    Json blocks = Json::array();
    for (const size_t block : row.blocks) blocks.push_back(made->blocks()[block].name);
    rows.push_back({{"name", row.name},
                    {"sizes", row.tensor.sizes().vec()},
                    {"blocks", blocks},
                    {"unit", unit_of(row, *made)},
                    {"tp", placement(tensor.cuts, tensor.partial, row.name)},
                    {"ep", placement(experts.cuts, {}, row.name)}});
  }
  return rows;
}

}  // namespace dpbench
