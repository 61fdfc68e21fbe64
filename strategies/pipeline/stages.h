// The cut of a model into pipeline stages: spans of its blocks, on the ranks that a schedule names.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "workloads/api/workload.h"

namespace dpbench::pipeline {

struct Stage {
  size_t first = 0, last = 0;  // blocks first .. last - 1; none: the stage passes on what it receives
  int rank = 0;                // on the axis pp
};

// Cuts the blocks into as many stages as `rank_of` has entries. blocks_per_stage: such as "2+3+1"; empty: stages whose
// numbers of blocks differ by at most 1, the longer ones first. A model without blocks is the first stage. Throws
// UsageError if blocks_per_stage does not fit. owner: the strategy's name for the message.
std::vector<Stage> cut_stages(const Model& model, const std::vector<int>& rank_of, const std::string& blocks_per_stage,
                              const std::string& owner = "pp");

// A parameter or buffer, and the stages that use it. One that no stage uses belongs to the first.
struct Placed {
  std::string name;  // the first of its names
  at::Tensor tensor;
  // Of the whole tensor.
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  std::vector<int> stages;

  bool tied() const { return stages.size() > 1; }
};
std::vector<Placed> placed_parameters(const Model& model, const std::vector<Stage>& stages);
std::vector<Placed> placed_buffers(const Model& model, const std::vector<Stage>& stages);

}  // namespace dpbench::pipeline
