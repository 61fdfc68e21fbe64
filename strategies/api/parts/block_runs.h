// Runs one sample through each block of a model, to learn the block's cost (FLOP) and the sizes of its output.
#pragma once

#include <functional>
#include <vector>

#include "strategies/api/parts/replica.h"
#include "strategies/api/traffic.h"

namespace dpbench {

// Runs one sample through the replica's model in evaluation mode. Returns each block's cost (FLOP) and the sizes of its
// output and its dtype; an empty list if the model has no blocks.
std::vector<BlockRun> runs_of_blocks(const Replica& replica, const Workload& workload);

// Returns a function that computes runs_of_blocks() at its first call, with a new model, and keeps the result. Used as
// TrafficQuery::block_runs. The result is empty if samples differ in size, such as sequences of different lengths: the
// outputs of one sample then say nothing about those of others.
std::function<const std::vector<BlockRun>&()> runs_at_first_call(const Workload& workload, at::ScalarType dtype,
                                                                 at::Device device);

}  // namespace dpbench
