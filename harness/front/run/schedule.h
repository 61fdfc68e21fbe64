// The order of cases within a launch. Each launch runs every case once, on fresh processes and in its own random order.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/front/run/launcher.h"

namespace dpbench {

// Returns the indices `which`, grouped by the cases that can share processes. Groups and cases are shuffled by (seed,
// launch).
std::vector<std::vector<size_t>> launch_order(const std::vector<CaseSpec>& cases, const std::vector<size_t>& which,
                                              int launch, uint64_t seed);

}  // namespace dpbench
