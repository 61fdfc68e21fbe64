// Tensors by name, and whether two have the same bits.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Null: there is none of this name.
const at::Tensor* find(const NamedTensors& tensors, const std::string& name);

// Of the same shape, type and bits, on any devices; NaN equals NaN whatever its payload, and 0 is not -0.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace dpbench
