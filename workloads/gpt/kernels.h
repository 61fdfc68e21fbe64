// Attention kernels for a whole sequence, or for blocks of keys with results to be merged, as context parallelism
// needs.
#pragma once

#include <memory>

#include "workloads/api/sequence_split.h"

namespace dpbench::gpt {

// Returns softmax attention. Blocks are computed in float32 or float64: on the CPU with LibTorch's flash kernels, on a
// GPU, in float32 and with head sizes that are multiples of 4, with LibTorch's memory-efficient kernels, otherwise as
// in plain_softmax_attention().
std::shared_ptr<const AttentionKernel> softmax_attention();
// Returns softmax attention that computes a block of keys from the full matrix of scores.
std::shared_ptr<const AttentionKernel> plain_softmax_attention();
// Returns attention with clamped scores instead of softmax, which is exact for whole numbers.
std::shared_ptr<const AttentionKernel> exact_attention();

}  // namespace dpbench::gpt
