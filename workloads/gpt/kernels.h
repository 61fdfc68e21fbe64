// Attention over a whole sequence, or over blocks of keys whose results are merged, as context parallelism needs.
#pragma once

#include <memory>

#include "workloads/api/sequence_split.h"

namespace dpbench::gpt {

// Softmax of the scores. Blocks are computed in float32 at least. On the CPU they use LibTorch's flash kernels, on a
// GPU its memory-efficient ones in float32, and otherwise those of plain_softmax_attention().
std::shared_ptr<const AttentionKernel> softmax_attention();
// Same, but computes a block from the full matrix of its scores.
std::shared_ptr<const AttentionKernel> plain_softmax_attention();
// Clamped scores without softmax, which are exact for whole numbers.
std::shared_ptr<const AttentionKernel> exact_attention();

}  // namespace dpbench::gpt
