// Which parameters of a model belong to which unit. The strategy makes its units by this plan, and its formula of the
// traffic reads it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "workloads/api/workload.h"

namespace dpbench::fsdp {

// Blocks first .. last - 1 of a model.
struct Span {
  size_t first = 0, last = 0;
};

// A span of a model's blocks, and the parameters that only this span uses.
struct PlannedUnit {
  std::string name;
  Span blocks = {};  // none for the unit of shared parameters
  size_t stage = 0;
  std::vector<at::Tensor> parameters = {};
};

struct UnitPlan {
  // In the order of the forward pass. A model without blocks is one unit.
  std::vector<PlannedUnit> units;
  // Parameters used in several spans of blocks, such as a tied embedding, or in none. They stay gathered for a whole
  // step.
  PlannedUnit root;

  // The numbers of a stage's units: first .. second - 1.
  std::pair<size_t, size_t> units_of(size_t stage) const;
};

// Cuts each stage into units of its own. stages: those of a rank; if empty, the whole model is one stage. If other
// ranks have stages of the model too, some parameters of `root` may belong to those ranks.
UnitPlan plan_units(const Model& model, int64_t blocks_per_unit, std::vector<Span> stages = {});

}  // namespace dpbench::fsdp
