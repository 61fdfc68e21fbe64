#include "harness/worker/finite.h"

#include <cmath>
#include <stdexcept>

#include <ATen/ATen.h>

#include "harness/conform/compare.h"

namespace dpbench {

std::optional<std::string> first_not_finite(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined() || !tensor.is_floating_point() || tensor.numel() == 0) continue;
    const auto [least, most] = at::aminmax(tensor.detach());  // makes no copy; both are NaN where one element is
    if (std::isfinite(least.item<double>()) && std::isfinite(most.item<double>())) continue;
    const at::Tensor flat = tensor.detach().cpu().flatten();
    const auto first = flat.isfinite().logical_not().to(at::kByte).argmax().item<int64_t>();
    return name + " is " + std::to_string(flat[first].item<double>()) + " at " + index_text(first, tensor.sizes());
  }
  return std::nullopt;
}

void require_finite(Strategy& strategy, int64_t step) {
  const NamedTensors gradients = strategy.gradients(), parameters = strategy.parameters();
  const std::string after = " after step " + std::to_string(step);
  if (const auto found = first_not_finite(gradients)) throw std::domain_error("the gradient of " + *found + after);
  if (const auto found = first_not_finite(parameters)) throw std::domain_error("parameter " + *found + after);
}

}  // namespace dpbench
