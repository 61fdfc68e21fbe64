// The trained parameters and the buffers of a model.
#pragma once

#include <algorithm>
#include <string>

#include <torch/nn/module.h>

#include "strategies/api/named_tensors.h"

namespace dpbench {

// Returns the trainable parameters; a tensor with several names is listed once, under its first name.
inline NamedTensors trained_parameters(const torch::nn::Module& model) {
  NamedTensors unique;
  for (const auto& item : model.named_parameters()) {
    const bool known =
        std::ranges::any_of(unique, [&](const auto& other) { return other.second.is_same(item.value()); });
    if (!known && item.value().requires_grad()) unique.emplace_back(item.key(), item.value());
  }
  return unique;
}

// Returns the first name of a tensor that may have several.
inline const std::string& first_name(const NamedTensors& tensors, const at::Tensor& tensor) {
  return std::ranges::find_if(tensors, [&](const auto& one) { return one.second.is_same(tensor); })->first;
}

inline NamedTensors named_buffers(const torch::nn::Module& model) {
  NamedTensors buffers;
  for (const auto& item : model.named_buffers()) buffers.emplace_back(item.key(), item.value());
  return buffers;
}

}  // namespace dpbench
