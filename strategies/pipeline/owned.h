// Tensors that lie on the ranks of a pipeline, gathered whole by name on every rank.
#pragma once

#include <functional>
#include <vector>

#include "strategies/api/mesh.h"
#include "strategies/api/named_tensors.h"
#include "strategies/pipeline/stages.h"

namespace dpbench::pipeline {

// A tensor as it is on the ranks that do not have it.
struct Whole {
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
};

// Returns a tensor for each entry of `places`, from the rank of its first stage. mine(i): this rank's tensor, undefined
// if it has none; called on its owner only. A tensor that is undefined there is undefined everywhere. Collective.
std::vector<at::Tensor> from_owners(const Axis& axis, at::Device device, const std::vector<int>& owners,
                                    const std::vector<Whole>& wholes, const std::function<at::Tensor(size_t i)>& mine);

}  // namespace dpbench::pipeline
