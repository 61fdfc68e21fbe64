// The assignment of a model's parameters to units (parameters that fsdp gathers together). The strategy builds its
// units from this plan, and its traffic formula reads the plan.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "workloads/api/workload.h"

namespace dpbench::fsdp {

// A span of a model's blocks: blocks first .. last - 1.
struct Span {
  size_t first = 0, last = 0;
};

// A span of a model's blocks, and the parameters that only this span uses. The root unit is an exception: it has no
// blocks, but all parameters that several units or none use.
struct PlannedUnit {
  std::string name;
  // Empty for the root unit, and for the only unit of a model without blocks.
  Span blocks = {};
  size_t stage = 0;
  std::vector<at::Tensor> parameters = {};
};

struct UnitPlan {
  // Units in the order of the forward pass. A model without blocks is one unit.
  std::vector<PlannedUnit> units;
  // The root unit: parameters that the blocks of several units use, such as a tied embedding, and parameters that no
  // block uses. They stay gathered for a whole step.
  PlannedUnit root;

  // Returns the index range of a pipeline stage's units: first .. second - 1.
  std::pair<size_t, size_t> units_of(size_t stage) const;
};

// Divides the model's pipeline stages into units (parameters that are gathered together). stages: the stages of this
// rank; if empty, the whole model is one stage. If there are stages on other ranks, `root` may contain parameters that
// only those ranks have.
UnitPlan plan_units(const Model& model, int64_t blocks_per_unit, std::vector<Span> stages = {});

}  // namespace dpbench::fsdp
