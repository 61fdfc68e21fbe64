// Tensor parallelism of a GPT: attention is cut by heads, the MLP by its inner width, embedding and head by tokens of
// the vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include "workloads/api/tensor_split.h"
#include "workloads/gpt/shape.h"

namespace dpbench::gpt {

// Returns the tensor-parallel plan. Throws UsageError if there are fewer heads, MLP features or vocabulary entries than
// ranks.
TensorPlan plan_of(const Shape& shape, int ranks);

// Computes the cross-entropy under tensor parallelism, from this rank's columns of the logits, of shape [samples,
// tokens, columns]. Returns it summed over tokens.
at::Tensor split_cross_entropy(const at::Tensor& logits, const at::Tensor& target, const Piece& columns,
                               const TensorSplit& split);

}  // namespace dpbench::gpt
