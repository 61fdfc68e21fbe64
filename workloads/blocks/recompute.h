// Recomputation: the backward pass runs blocks of the model again instead of keeping their activations, which saves
// memory and costs about a third more computation.
#pragma once

#include <span>

#include "workloads/api/workload.h"

namespace dpbench {

// Runs the blocks one after the other: each gets the output of the one before.
at::Tensor run_blocks(std::span<const Block> blocks, at::Tensor x, const Context& context);

// Same as run_blocks(), with the same bits in output, gradients and buffers, but keeps only `x` for the backward pass.
// The backward pass runs the blocks again, with the autocast and dropout masks of the first run, but does not update
// buffers a second time. A parameter that the blocks do not use counts as used: autograd calls its hooks with an
// undefined gradient.
at::Tensor recomputed(std::span<const Block> blocks, const at::Tensor& x, const Context& context);

}  // namespace dpbench
