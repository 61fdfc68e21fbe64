// Cuts a model's blocks into the stages of a pipeline, so that the stage that takes longest takes as little as
// possible.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench::forecast {

// Returns the number of blocks of each stage, at least one. costs: of the blocks in order; there must be as many blocks
// as stages or more.
std::vector<int64_t> balanced_sizes(const std::vector<double>& costs, int64_t stages);

}  // namespace dpbench::forecast
