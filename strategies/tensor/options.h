// The parameters and the traffic formula of tensor parallelism.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/api/mesh.h"
#include "strategies/api/params.h"
#include "strategies/api/traffic.h"
#include "strategies/parts/rank_share.h"

namespace dpbench::tensor {

struct Options {
  std::string owner = "tp";  // the strategy's name, for messages
  // True: activations between the divided layers are cut along the sequence (sequence parallelism).
  bool sequence = false;
  // Number of parts into which a matrix product is cut; the sum over ranks of one part overlaps with the next part.
  int64_t chunks = 1;
  bool verify = false;
};

std::vector<ParamInfo> parameters();
// Throws UsageError for a value that is out of range.
Options options_of(const Params& params);

// Returns the traffic of a step over the mesh axis tp. Does not count the sum over ranks of the squared norm for
// gradient clipping. tp: the axis; its group is not used.
std::vector<Traffic> traffic(const TrafficQuery& query, const Options& options, const TensorPlan& plan, const Axis& tp,
                             const RankShare& share);

}  // namespace dpbench::tensor
