// ReLU, or softplus for smooth models.
#pragma once

#include <ATen/ops/relu.h>
#include <ATen/ops/softplus.h>

namespace dpbench {

// ReLU works in place: no layer here needs the unactivated output in its backward pass.
inline at::Tensor activate(at::Tensor x, bool smooth) { return smooth ? at::softplus(x) : x.relu_(); }

}  // namespace dpbench
