// Lists the parameters of a span of a model's blocks.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "workloads/api/workload.h"

namespace dpbench {

// Returns each parameter of the blocks once, in the order of the blocks.
inline std::vector<at::Tensor> block_parameters(std::span<const Block> blocks) {
  std::vector<at::Tensor> all;
  for (const Block& block : blocks)
    for (const auto& layer : block.layers)
      for (const at::Tensor& parameter : layer->parameters())
        if (std::ranges::none_of(all, [&](const at::Tensor& other) { return other.is_same(parameter); }))
          all.push_back(parameter);
  return all;
}

}  // namespace dpbench
