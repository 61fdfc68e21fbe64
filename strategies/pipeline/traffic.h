// The traffic formula of pipeline parallelism.
#pragma once

#include <optional>
#include <vector>

#include "strategies/api/traffic.h"

namespace dpbench::pipeline {

// Returns the messages and collectives of a rank in a step with pipeline parallelism. Returns nullopt for a model
// without blocks, and under autocast, because each layer then chooses the dtype of its activations.
std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query);

}  // namespace dpbench::pipeline
