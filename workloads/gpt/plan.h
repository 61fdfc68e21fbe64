// Tensor parallelism of a GPT: attention is cut by heads, the MLP by its inner width, embedding and head by tokens of
// the vocabulary.
#pragma once

#include <cstddef>

#include <ATen/core/Tensor.h>

#include "workloads/api/tensor_split.h"
#include "workloads/gpt/shape.h"

namespace dpbench::gpt {

// The model's blocks are the embedding, the layers, the last norm and the head. first_layer and head_block() are the
// indices of the first layer and of the head.
inline constexpr size_t first_layer = 1;
inline size_t head_block(const Shape& shape) { return first_layer + static_cast<size_t>(shape.layers) + 1; }

// Returns the tensor-parallel plan. Throws UsageError if there are fewer heads, MLP features or vocabulary entries than
// ranks.
TensorPlan plan_of(const Shape& shape, int ranks);

// Computes the cross-entropy under tensor parallelism, from this rank's columns of the logits, of shape [samples,
// tokens, columns]. Returns a tensor of one dimension: the cross-entropy of each token of each sample, 0 for tokens
// without a target.
at::Tensor split_cross_entropy(const at::Tensor& logits, const at::Tensor& target, const Piece& columns,
                               const TensorSplit& split);

}  // namespace dpbench::gpt
