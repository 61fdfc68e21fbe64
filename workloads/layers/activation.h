// The activation function: ReLU, or softplus for models that must be smooth functions.
#pragma once

#include <ATen/ops/relu.h>
#include <ATen/ops/softplus.h>

namespace dpbench {

// Applies the activation. ReLU works in place, because no backward pass needs the input of the ReLU.
inline at::Tensor activate(at::Tensor x, bool smooth) { return smooth ? at::softplus(x) : x.relu_(); }

}  // namespace dpbench
