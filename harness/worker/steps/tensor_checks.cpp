#include "harness/worker/steps/tensor_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "workloads/base/hash.h"

namespace dpbench {

std::optional<std::string> first_not_finite(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined() || !tensor.is_floating_point() || tensor.numel() == 0) continue;
    // aminmax finds the least and the greatest element without a copy of the tensor. Both are NaN if any element is.
    const auto [least, most] = at::aminmax(tensor.detach());
    if (std::isfinite(least.item<double>()) && std::isfinite(most.item<double>())) continue;
    const at::Tensor flat = tensor.detach().cpu().flatten();
    const auto first = flat.isfinite().logical_not().to(at::kByte).argmax().item<int64_t>();
    return name + " is " + std::to_string(flat[first].item<double>()) + " at " + index_text(first, tensor.sizes());
  }
  return std::nullopt;
}

std::optional<NotFinite> first_not_finite(int64_t step, const at::Tensor& loss, const NamedTensors& gradients,
                                          const NamedTensors& parameters) {
  const std::string number = "step " + std::to_string(step);
  if (loss.defined() && loss.numel() == 1 && loss.is_floating_point())
    if (const auto value = loss.item<double>(); !std::isfinite(value))
      return NotFinite{NotFinite::Of::loss, "the loss of " + number + " is " + std::to_string(value)};
  if (const auto found = first_not_finite(gradients))
    return NotFinite{NotFinite::Of::gradient, "the gradient of " + *found + " after " + number};
  if (const auto found = first_not_finite(parameters))
    return NotFinite{NotFinite::Of::parameter, "parameter " + *found + " after " + number};
  return std::nullopt;
}

void require_finite(Strategy& strategy, int64_t step) {
  if (const auto found = first_not_finite(step, {}, strategy.gradients(), strategy.parameters()))
    throw std::domain_error(found->text);
}

std::string fingerprint(const NamedTensors& tensors, const std::vector<std::string>& own) {
  const auto is_own = [&](const std::string& name) { return std::find(own.begin(), own.end(), name) != own.end(); };
  uint64_t hash = fnv1a_start;
  for (const auto& [name, tensor] : tensors) {
    if (is_own(name) || is_own(split_state_name(name).parameter)) continue;
    hash = fnv1a_words(name.data(), name.size(), hash);
    if (!tensor.defined()) continue;
    const at::Tensor plain = tensor.detach().cpu().contiguous();
    hash = fnv1a_words(plain.data_ptr(), plain.nbytes(), hash);
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

void record_parameters(const NamedTensors& parameters, const std::vector<std::string>& own, RankRecord& record) {
  record.parameters_hash = fingerprint(parameters, own);
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.defined()) continue;
    record.model_parameters += tensor.numel();
    record.model_bytes += static_cast<int64_t>(tensor.nbytes());
  }
}

}  // namespace dpbench
