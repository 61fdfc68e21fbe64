// The traffic formula of a layout: the sum of the formulas of its mesh axes.
#pragma once

#include <optional>
#include <vector>

#include "strategies/api/traffic.h"
#include "strategies/layout/options.h"

namespace dpbench::layout {

// Returns the traffic of one rank in one step. Returns nullopt if a part of it has no formula:
// - with the parameter gather=bf16 and cp, pp, tp or ep: the dtype of an activation then depends on its parameters,
// - with tp.verify,
// - with several parts of a micro-batch (pipeline.microbatches) and shard or ep: ranks agree on their number,
// - with pp, if the model has no blocks or its samples differ in size,
// - with pp and tp, unless all activations between blocks are whole or cut along the sequence.
std::optional<std::vector<Traffic>> traffic(const Options& options, const TrafficQuery& query);

}  // namespace dpbench::layout
