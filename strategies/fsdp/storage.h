// Describes how a strategy that shards parameters (fsdp, layout) or gradients (zero2) stores and communicates them.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "strategies/api/mesh.h"

namespace dpbench::fsdp {

struct Storage {
  Axis shard;    // mesh axis over which parameters are cut: each of its ranks stores different rows
  Axis replica;  // mesh axis whose ranks all store the same rows
  // Mesh axis over which parameters are cut between forward and backward pass, so that only its ranks take part in the
  // next gather. If it has one rank, parameters stay cut over the axis `shard`.
  Axis between = {};
  bool whole = false;  // true if the whole parameters are never freed, as in ZeRO-2
  // The dtype in which matrices are gathered, and the dtype in which gradients are reduced. nullopt: their own dtype.
  std::optional<at::ScalarType> gathered = {}, reduced = {};
  // Parameters with gradients that the strategy also sums over other mesh axes, after the reduce-scatter. Their
  // gradients are reduced in their own dtype, not in `reduced`.
  std::vector<at::Tensor> parts = {};
  // For tests. If true, parameters are filled with NaN instead of being freed, and the output of a gather is filled
  // with NaN before the gather begins. A read of a parameter that is not gathered then shows in the results.
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
