// Whether what was trained is made of numbers.
#pragma once

#include <optional>
#include <string>

#include "strategies/strategy.h"

namespace dpbench {

// The first element that is no finite number, as in "fc.weight is nan at index [1, 2]"; nothing where all are.
std::optional<std::string> first_not_finite(const NamedTensors& tensors);

// Of the gradients, then of the parameters. Throws std::domain_error that names the first after step `step`.
// Collective, untimed.
void require_finite(Strategy& strategy, int64_t step);

}  // namespace dpbench
