// The traffic formula of pipeline parallelism.
#pragma once

#include <cstdint>
#include <vector>

#include "strategies/api/traffic.h"
#include "strategies/parts/rank_share.h"
#include "strategies/pipeline/options.h"
#include "strategies/pipeline/stages.h"

namespace dpbench::pipeline {

// Returns the numbers of samples of the parts into which a pipeline cuts micro-batches.
std::vector<int64_t> samples_of_parts(const std::vector<int64_t>& micro, int64_t microbatches);

// Returns the traffic of a step over the mesh axis pp. Does not count the sum over ranks of the squared norm for
// gradient clipping. here: this rank's position on the axis.
std::vector<Traffic> traffic(const TrafficQuery& query, const Options& options, const std::vector<Stage>& stages,
                             int here, const RankShare& share);

}  // namespace dpbench::pipeline
