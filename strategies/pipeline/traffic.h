// The traffic formula of pipeline parallelism.
#pragma once

#include <optional>
#include <vector>

#include "strategies/api/traffic.h"

namespace dpbench::pipeline {

// Returns nullopt under autocast, because a layer chooses the dtype of an activation, and for a model without blocks.
std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query);

}  // namespace dpbench::pipeline
