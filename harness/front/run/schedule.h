// Determines the order of cases within a launch. Each launch runs every case once, on new processes and in its own
// random order.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/front/run/launcher.h"

namespace dpbench {

// Returns the case indices `which`, grouped so that the cases of a group can share processes. Cases with the same
// reference (the case against which their speed-up is measured) are neighbours, so that the reference's processes keep
// running. The order of groups, references and cases is random but reproducible from `seed` and `launch`.
std::vector<std::vector<size_t>> launch_order(const std::vector<CaseSpec>& cases, const std::vector<size_t>& which,
                                              int launch, uint64_t seed);

}  // namespace dpbench
