// Causal self-attention with shared key and value heads and rotary positions. Under tensor parallelism each rank has
// some of the heads, under context parallelism some of the tokens.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <torch/nn/module.h>

#include "workloads/api/sequence_split.h"
#include "workloads/gpt/layers.h"
#include "workloads/gpt/shape.h"

namespace dpbench::gpt {

// Rotary positions: rotates pairs (i, i + size / 2) of a head's features by an angle that grows with the token's
// position.
class Rotary {
 public:
  Rotary(int64_t positions, int64_t head_size);
  // x: a tensor of shape [samples, heads, tokens, head size]. positions: the ranges of the sequence in which these
  // tokens lie, in the order of the tokens.
  at::Tensor rotate(const at::Tensor& x, const std::vector<Piece>& positions) const;

 private:
  struct Tables {
    at::Tensor cosine, sine;  // cosines and sines, each of shape [positions, head size]
  };
  const Tables& tables_for(const at::Tensor& x) const;

  Tables exact_;  // cosines and sines in float64, on the CPU
  // A copy of the cosines and sines on the device and in the dtype of the most recent pass. A step captured in a CUDA
  // graph needs it, because it cannot copy the tables from the host.
  mutable Tables near_;
};

class Attention : public torch::nn::Module {
 public:
  Attention(const Shape& shape, const InitialWeights& weights);
  // x: input of shape [samples, tokens, hidden]
  at::Tensor forward(const at::Tensor& x, const ModelSplit& split = {}) const;

 private:
  at::Tensor heads_of(const std::shared_ptr<Dense>& projection, const at::Tensor& x) const;
  at::Tensor heads_used(const at::Tensor& shared, const TensorSplit& split) const;

  Shape shape_;
  std::shared_ptr<Dense> query_, key_, value_, output_;
  // The rotary positions; unset if the model has none; a clone of the module has tables of its own.
  std::optional<Rotary> rotary_;
  std::shared_ptr<const AttentionKernel> kernel_;
};

}  // namespace dpbench::gpt
