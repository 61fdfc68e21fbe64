// Initialises parameters from an explicit random generator: the same seed gives the same bits in any process and
// thread.
#pragma once

#include <cstdint>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace dpbench {

enum class Init {
  torch,  // PyTorch's default: weight and bias are uniformly distributed in +-1/sqrt(fan in)
  // Keras' default: the weight is uniformly distributed in +-sqrt(6 / (fan in + fan out)), and the bias is zero.
  glorot,
};

at::Generator own_generator(uint64_t seed);

// Return the initial weight or bias of a layer, drawn from `generator`. The shape of a weight is [outputs, inputs,
// kernel...].
at::Tensor init_weight(at::IntArrayRef shape, Init init, const at::Generator& generator);
at::Tensor init_bias(at::IntArrayRef weight_shape, Init init, const at::Generator& generator);

}  // namespace dpbench
