// How a sharded strategy stores and communicates its parameters.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "strategies/api/mesh.h"

namespace dpbench::fsdp {

struct Storage {
  Axis shard;    // each rank of this axis stores some rows of each parameter
  Axis replica;  // the ranks of this axis store the same rows
  // Axis over which parameters are sharded between forward and backward pass. If it has one rank, they are sharded over
  // `shard` there too.
  Axis between = {};
  bool whole = false;  // parameters are not freed (ZeRO-2)
  // Dtypes in which matrices are gathered and gradients are reduced; nullopt: their own.
  std::optional<at::ScalarType> gathered = {}, reduced = {};
  // Parameters whose gradients are summed over other axes after this reduction. They are reduced in their own dtype.
  std::vector<at::Tensor> parts = {};
  bool poison = false;  // freed parameters are filled with NaN, and their memory is kept

  bool is_part(const at::Tensor& parameter) const {
    return std::ranges::any_of(parts, [&](const at::Tensor& one) { return one.is_same(parameter); });
  }
  // True if parameters are freed after each use, and gathered before.
  bool frees() const { return !whole && (shard.size > 1 || gathered); }
};

// Returns the dtype in which a parameter is gathered. Vectors, such as the weights of norms, keep their own.
inline at::ScalarType gathered_dtype(const at::Tensor& parameter, at::ScalarType own,
                                     const std::optional<at::ScalarType>& asked) {
  return asked && parameter.is_floating_point() && parameter.dim() >= 2 ? *asked : own;
}

}  // namespace dpbench::fsdp
