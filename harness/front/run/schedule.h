// In which order cases are run: every launch all of them once, on fresh processes, in an order of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/front/run/launcher.h"

namespace dpbench {

// Indices into `cases`, those that can share processes next to each other; groups and cases shuffled by (seed, launch).
std::vector<std::vector<size_t>> launch_order(const std::vector<CaseSpec>& cases, const std::vector<size_t>& which,
                                              int launch, uint64_t seed);

}  // namespace dpbench
