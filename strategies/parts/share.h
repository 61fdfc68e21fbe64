// Broadcasts tensors of one rank to ranks that do not know their shapes.
#pragma once

#include <ATen/core/Tensor.h>

#include "strategies/api/mesh.h"

namespace dpbench {

// The header of a tensor: its dtype and sizes as int64 words. It is sent before the tensor to ranks that do not know
// them.
inline constexpr int64_t header_dimensions = 8, header_words = header_dimensions + 2;
at::Tensor header_of(const at::Tensor& tensor);

// Broadcasts the tensor of the rank `root` of the axis, and returns it on every rank. If the tensor is undefined, the
// result is undefined too. Collective.
at::Tensor share(const at::Tensor& tensor, int root, const Axis& axis, at::Device device);

}  // namespace dpbench
