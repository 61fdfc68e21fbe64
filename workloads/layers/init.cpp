#include "workloads/layers/init.h"

#include <cmath>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace dpbench {
namespace {

double fan_in(at::IntArrayRef shape) { return static_cast<double>(c10::multiply_integers(shape.slice(1))); }
double fan_out(at::IntArrayRef shape) { return static_cast<double>(shape[0] * c10::multiply_integers(shape.slice(2))); }

// Returns the bound of the uniform distribution from which PyTorch's kaiming_uniform_ with a = sqrt(5) draws. It is
// computed in PyTorch's order of operations, to get the same bits.
double kaiming_bound(at::IntArrayRef shape) {
  const double gain = std::sqrt(2.0 / (1 + std::pow(std::sqrt(5.0), 2)));
  return std::sqrt(3.0) * (gain / std::sqrt(fan_in(shape)));
}

double glorot_bound(at::IntArrayRef shape) { return std::sqrt(6 / (fan_in(shape) + fan_out(shape))); }

at::Tensor uniform_tensor(at::IntArrayRef shape, double bound, const at::Generator& generator) {
  return at::empty(shape).uniform_(-bound, bound, generator);
}

}  // namespace

at::Generator own_generator(uint64_t seed) { return at::detail::createCPUGenerator(seed); }

at::Tensor init_weight(at::IntArrayRef shape, Init init, const at::Generator& generator) {
  return uniform_tensor(shape, init == Init::torch ? kaiming_bound(shape) : glorot_bound(shape), generator);
}

at::Tensor init_bias(at::IntArrayRef weight_shape, Init init, const at::Generator& generator) {
  if (init == Init::glorot) return at::zeros({weight_shape[0]});
  return uniform_tensor({weight_shape[0]}, 1 / std::sqrt(fan_in(weight_shape)), generator);
}

}  // namespace dpbench
