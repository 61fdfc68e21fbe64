// Casts tensors from a check's dtype to float64.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpbench {

// Returns the tensor detached. A floating-point tensor is also cast to float64 if `dtype` is float64.
inline at::Tensor widened(const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.is_floating_point() && dtype == at::kDouble ? tensor.detach().to(at::kDouble) : tensor.detach();
}

}  // namespace dpbench
