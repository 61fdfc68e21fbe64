// Tensors by name, and bitwise comparison of tensors.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Returns a pointer to the tensor with this name; null if there is none.
const at::Tensor* find(const NamedTensors& tensors, const std::string& name);

// True if both tensors have the same shape, dtype and bits, on any devices. All NaNs are equal; 0 differs from -0.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace dpbench
