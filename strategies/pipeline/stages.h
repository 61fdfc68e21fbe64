// The cut of a model into pipeline stages: spans of its blocks, on the ranks that a schedule names.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "strategies/api/traffic.h"
#include "workloads/api/workload.h"

namespace dpbench::pipeline {

struct Stage {
  // The stage has the model's blocks first .. last - 1; a stage without blocks passes its input on.
  size_t first = 0, last = 0;
  int rank = 0;  // the stage's rank on the mesh axis pp
};

// Returns the floating-point operations of one sample's forward pass through each block.
std::vector<double> flop_of(const std::vector<BlockRun>& runs);

// Reads the parameter blocks of the strategy `owner`: sizes of stages such as "2+3+1". Throws UsageError.
std::vector<size_t> parse_sizes(const std::string& text, const std::string& owner);

// Cuts a model's blocks into as many stages as `rank_of` has entries. blocks_per_stage: sizes such as "2+3+1"; throws
// UsageError, with the strategy's name `owner`, if they do not fit. If empty, the cut minimises the cost of the most
// expensive stage. costs: the cost of each block. If no cost is above 0, or there are no more blocks than stages, the
// sizes differ by at most 1 and the longer stages come first. A model without blocks runs whole in the first stage.
std::vector<Stage> cut_stages(const Model& model, const std::vector<int>& rank_of, const std::string& blocks_per_stage,
                              const std::string& owner = "pp", const std::vector<double>& costs = {});

// A parameter or buffer, and the stages that use it. A tensor that no stage uses belongs to the first stage.
struct Placed {
  std::string name;  // the tensor's name; for a tied tensor, the first of its names
  at::Tensor tensor;
  // Sizes and dtype of the whole tensor, of which a rank may have only a piece.
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  std::vector<int> stages;

  bool tied() const { return stages.size() > 1; }
};
std::vector<Placed> placed_parameters(const Model& model, const std::vector<Stage>& stages);
std::vector<Placed> placed_buffers(const Model& model, const std::vector<Stage>& stages);

}  // namespace dpbench::pipeline
