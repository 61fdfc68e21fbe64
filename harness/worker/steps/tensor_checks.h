// Checks the whole parameters, gradients and state of a strategy after a step: every element must be finite, and all
// ranks must hold the same bits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/case.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// Describes the first non-finite element of the tensors, as in "fc.weight is nan at index [1, 2]"; nullopt if all
// elements are finite.
std::optional<std::string> first_not_finite(const NamedTensors& tensors);

// The first non-finite value after a step. The loss is checked first (if it is a single number), then the gradients,
// then the parameters.
struct NotFinite {
  enum class Of { loss, gradient, parameter } of;
  std::string text;  // description, e.g. "parameter fc.weight is nan at index [1, 2] after step 3"
};
std::optional<NotFinite> first_not_finite(int64_t step, const at::Tensor& loss, const NamedTensors& gradients,
                                          const NamedTensors& parameters);

// Throws std::domain_error if a gradient or parameter is not finite after step `step`; the message names the first one.
// Every rank must call it. Not called while steps are timed.
void require_finite(Strategy& strategy, int64_t step);

// Returns a short hash of the tensors' names and bytes. Equal hashes on two ranks mean equal bits. Skips the parameters
// named in `own`, which ranks do not synchronize, and their optimizer state.
std::string fingerprint(const NamedTensors& tensors, const std::vector<std::string>& own = {});

// Records the hash, number and bytes of a model's whole parameters. own: parameters that ranks do not synchronize; the
// hash leaves them out.
void record_parameters(const NamedTensors& parameters, const std::vector<std::string>& own, RankRecord& record);

}  // namespace dpbench
