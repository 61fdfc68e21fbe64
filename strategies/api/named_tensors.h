// Tensors by name, and bitwise comparison.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Returns null if no tensor has this name.
const at::Tensor* find(const NamedTensors& tensors, const std::string& name);

// True if both tensors have the same shape, dtype and bits, on any devices. All NaNs are equal; 0 differs from -0.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace dpbench
