// Gathers tensors that lie on different ranks of a pipeline, so that every rank has all of them.
#pragma once

#include <functional>
#include <vector>

#include "strategies/api/mesh.h"
#include "strategies/api/named_tensors.h"
#include "strategies/pipeline/stages.h"

namespace dpbench::pipeline {

// Shape and dtype of a whole tensor, which ranks without the tensor need to receive it.
struct Whole {
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
};

// Broadcasts each tensor i from the rank owners[i], and returns all tensors on every rank. mine(i): the owner's tensor;
// called on the owner only. A tensor that is undefined on its owner stays undefined on every rank. Collective.
std::vector<at::Tensor> from_owners(const Axis& axis, at::Device device, const std::vector<int>& owners,
                                    const std::vector<Whole>& wholes, const std::function<at::Tensor(size_t i)>& mine);

}  // namespace dpbench::pipeline
