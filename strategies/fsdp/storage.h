// Describes how a strategy that shards parameters (fsdp, layout) or gradients (zero2) stores and communicates them.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "strategies/api/mesh.h"

namespace dpbench::fsdp {

struct Storage {
  Axis shard;    // mesh axis on which each rank stores some rows of each parameter
  Axis replica;  // mesh axis on which all ranks store the same rows
  // Axis over which parameters are sharded between forward and backward pass. If this axis has one rank, parameters
  // stay sharded over the axis `shard`.
  Axis between = {};
  bool whole = false;  // true if parameters are never freed (ZeRO-2)
  // Dtypes in which matrices are gathered and in which gradients are reduced. nullopt: matrices or gradients keep their
  // own dtype.
  std::optional<at::ScalarType> gathered = {}, reduced = {};
  // Parameters with gradients that are also summed over other mesh axes, after the reduce-scatter. Their gradients are
  // reduced in their own dtype.
  std::vector<at::Tensor> parts = {};
  // true: fill freed parameters with NaN instead of freeing memory, and the output of a gather before it begins. For
  // tests.
  bool poison = false;

  bool is_part(const at::Tensor& parameter) const {
    return std::ranges::any_of(parts, [&](const at::Tensor& one) { return one.is_same(parameter); });
  }
  // True if parameters are gathered before each use and freed afterwards.
  bool frees() const { return !whole && (shard.size > 1 || gathered); }
};

// Returns the dtype in which a parameter is gathered. Vectors, such as the weights of norms, keep their own dtype.
inline at::ScalarType gathered_dtype(const at::Tensor& parameter, at::ScalarType own,
                                     const std::optional<at::ScalarType>& asked) {
  return asked && parameter.is_floating_point() && parameter.dim() >= 2 ? *asked : own;
}

}  // namespace dpbench::fsdp
