// The seeds that a strategy gets, the same in checks and in timed runs.
#pragma once

#include <cstdint>

namespace dpbench {

// Ranks get different seeds for their initial parameters, so that a strategy must broadcast rank 0's.
constexpr uint64_t init_seed_of(uint64_t seed, int rank) { return seed + 7919 * static_cast<uint64_t>(rank); }
constexpr uint64_t step_seed_of(uint64_t seed) { return seed; }

}  // namespace dpbench
