// The activation function: ReLU, or softplus for models that must be smooth functions.
#pragma once

#include <ATen/ops/relu.h>
#include <ATen/ops/softplus.h>

namespace dpbench {

// Applies the activation function: softplus if `smooth`, else ReLU. ReLU overwrites x, because no backward pass needs
// it.
inline at::Tensor activate(at::Tensor x, bool smooth) { return smooth ? at::softplus(x) : x.relu_(); }

}  // namespace dpbench
