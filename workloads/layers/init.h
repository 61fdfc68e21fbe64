// Initialises parameters from an explicit random generator: the same seed gives the same bits in any process and
// thread.
#pragma once

#include <cstdint>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace dpbench {

enum class Init {
  torch,   // PyTorch's default initialisation: weight and bias uniform in +-1/sqrt(fan in)
  glorot,  // Keras' default initialisation: weight uniform in +-sqrt(6 / (fan in + fan out)), bias zero
};

at::Generator own_generator(uint64_t seed);

// init_weight() and init_bias() return the initial weight and bias of a layer. Weight shapes are [outputs, inputs,
// kernel...].
at::Tensor init_weight(at::IntArrayRef shape, Init init, const at::Generator& generator);
at::Tensor init_bias(at::IntArrayRef weight_shape, Init init, const at::Generator& generator);

}  // namespace dpbench
