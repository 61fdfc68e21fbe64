// Attention kernels for a whole sequence, or for blocks of keys with results to be merged, as context parallelism
// needs.
#pragma once

#include <memory>

#include "workloads/api/sequence_split.h"

namespace dpbench::gpt {

// Returns softmax attention. For blocks of keys it computes in float32 or float64. On the CPU it uses LibTorch's flash
// kernels. On a GPU it uses LibTorch's memory-efficient kernels in float32, if the head size is a multiple of 4. In all
// other cases it computes as plain_softmax_attention() does.
std::shared_ptr<const AttentionKernel> softmax_attention();
// Returns softmax attention that computes the full matrix of scores for each block of keys.
std::shared_ptr<const AttentionKernel> plain_softmax_attention();
// Returns attention with clamped scores in place of softmax. With whole numbers as inputs, all its sums are exact.
std::shared_ptr<const AttentionKernel> exact_attention();

}  // namespace dpbench::gpt
