// Which parameters of a model belong to which unit. The strategy makes its units by this plan, and its formula of the
// traffic reads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/api/workload.h"

namespace dpbench::fsdp {

// A span of a model's blocks, and the parameters that only this span uses.
struct PlannedUnit {
  std::string name;
  size_t first = 0, last = 0;  // blocks first .. last - 1; none for the unit of shared parameters
  std::vector<at::Tensor> parameters = {};
};

struct UnitPlan {
  // In the order of the forward pass. A model without blocks is one unit.
  std::vector<PlannedUnit> units;
  // Parameters of several spans, such as a tied embedding, or of none. They stay gathered for a whole step.
  PlannedUnit root;
};

UnitPlan plan_units(const Model& model, int64_t blocks_per_unit);

}  // namespace dpbench::fsdp
