// Checks of a strategy's tensors after a step: every element is finite, and every rank has the same bits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench {

// The first element that is no finite number, as in "fc.weight is nan at index [1, 2]"; nothing where all are.
std::optional<std::string> first_not_finite(const NamedTensors& tensors);

// What a step left: its loss, where that is one number at all, then the gradients, then the parameters.
struct NotFinite {
  enum class Of { loss, gradient, parameter } of;
  std::string text;  // as in "parameter fc.weight is nan at index [1, 2] after step 3"
};
std::optional<NotFinite> first_not_finite(int64_t step, const at::Tensor& loss, const NamedTensors& gradients,
                                          const NamedTensors& parameters);

// Of the gradients, then of the parameters. Throws std::domain_error that names the first after step `step`.
// Collective, untimed.
void require_finite(Strategy& strategy, int64_t step);

// A short hash of names and bytes: equal on two ranks means the same bits. own: parameters that each rank keeps for
// itself, left out together with the optimizer's state for them.
std::string fingerprint(const NamedTensors& tensors, const std::vector<std::string>& own = {});

}  // namespace dpbench
