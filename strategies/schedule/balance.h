// Divides the blocks of a model among pipeline stages.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench::pipeline {

// Returns the number of blocks of each stage, at least one, such that the slowest stage is as fast as possible. costs:
// cost of each block, in order. Requires at least as many blocks as stages.
std::vector<int64_t> balanced_sizes(const std::vector<double>& costs, int64_t stages);

}  // namespace dpbench::pipeline
