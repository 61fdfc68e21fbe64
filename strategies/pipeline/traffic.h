// The traffic formula of pipeline parallelism.
#pragma once

#include <optional>
#include <vector>

#include "strategies/api/traffic.h"

namespace dpbench::pipeline {

// Returns the messages and collectives of a rank in a pipelined step. Returns nullopt for a model without blocks, and
// under autocast, because a layer then chooses the dtype of an activation.
std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query);

}  // namespace dpbench::pipeline
