// A short hash of tensors' bytes: equal on two ranks means the same bits.
#pragma once

#include <string>

#include "strategies/strategy.h"

namespace dpbench {

std::string fingerprint(const NamedTensors& tensors);

}  // namespace dpbench
