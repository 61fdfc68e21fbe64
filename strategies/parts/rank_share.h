// The share of one rank of a mesh in the model and in a step, for the traffic formulas of the mesh's axes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "strategies/api/named_tensors.h"
#include "workloads/api/tensor_split.h"

namespace dpbench {

enum class Direction { forward, backward };  // of a pass

struct RankShare {
  NamedTensors parameters;     // trained parameters of this rank's blocks: the part of each that the rank stores
  std::vector<bool> computes;  // for each of the model's blocks, true if this rank computes it; empty: it computes all
  std::vector<bool> again;     // for each block, true if the backward pass runs its forward pass again; empty: none
  bool has_loss = true;        // true if this rank computes the loss
  std::vector<int64_t> parts;  // numbers of samples of the parts of micro-batches; a part is one pass through the model
  // Tokens of a sample: all of them, those in this rank's layers, and those of its activations between layers. All are
  // 1 for a model without a sequence.
  int64_t sequence = 1, tokens = 1, between = 1;

  bool computes_block(size_t block) const { return computes.empty() || (block < computes.size() && computes[block]); }

  // Returns how often this rank runs a pass through a block for a part.
  int64_t runs(size_t block, Direction pass) const {
    if (!computes_block(block)) return 0;
    return pass == Direction::forward && block < again.size() && again[block] ? 2 : 1;
  }

  // Returns the sum of runs() over the blocks first .. first + count - 1.
  int64_t runs(size_t first, int64_t count, Direction pass) const {
    int64_t sum = 0;
    for (size_t block = first; block < first + static_cast<size_t>(count); ++block) sum += runs(block, pass);
    return sum;
  }

  // Returns the calls of a function of TensorSplit and their elements, summed over this rank's passes through blocks.
  SplitCalls sum_of(const CallsOfBlocks& of_blocks, Direction pass) const {
    SplitCalls sum;
    for (const auto& [block, calls] : of_blocks) {
      const int64_t times = runs(block, pass);
      sum.elements += times * calls.elements, sum.cast += times * calls.cast, sum.calls += times * calls.calls;
    }
    return sum;
  }

  // Returns the number of parts that have samples.
  int64_t passes() const {
    return std::ranges::count_if(parts, [](int64_t samples) { return samples > 0; });
  }
};

}  // namespace dpbench
