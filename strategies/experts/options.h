// The traffic formula of expert parallelism. Expert parallelism has no --param parameters.
#pragma once

#include <vector>

#include "strategies/api/traffic.h"
#include "strategies/parts/rank_share.h"
#include "workloads/api/expert_split.h"

namespace dpbench::experts {

// Returns the traffic of a step over the mesh axis ep. Does not count the model's buffers, nor the sum over ranks of
// the squared norm for gradient clipping.
std::vector<Traffic> traffic(const TrafficQuery& query, const ExpertPlan& plan, const RankShare& share);

}  // namespace dpbench::experts
