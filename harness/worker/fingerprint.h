// A short hash of tensors' bytes: equal on two ranks means the same bits.
#pragma once

#include <string>

#include "strategies/strategy.h"

namespace dpbench {

// own: parameters that each rank keeps for itself, left out with what the optimizer keeps for them.
std::string fingerprint(const NamedTensors& tensors, const std::vector<std::string>& own = {});

}  // namespace dpbench
