// Ring attention: keys and values travel from rank to rank. Each rank attends to the keys and values that it holds
// while the next ones arrive, and merges the results.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "strategies/api/mesh.h"
#include "strategies/api/parts/collectives.h"
#include "strategies/context/token_cut.h"
#include "strategies/pipeline/links.h"
#include "workloads/api/sequence_split.h"

namespace dpbench::context {

class Ring {
 public:
  using Result = AttentionKernel::Result;
  using Gradients = AttentionKernel::Gradients;

  // around: wraps each start of a transfer and each wait for one. poison: fill a tensor that is to be received with
  // NaN, so that a read before its arrival shows in tests.
  Ring(Axis axis, TokenCut cut, Around around, bool poison)
      : axis_(std::move(axis)), cut_(std::move(cut)), around_(std::move(around)), poison_(poison) {}
  virtual ~Ring() = default;

  // Returns the attention result of this rank's tokens. Collective. query, key, value: tensors of this rank's tokens.
  Result forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                 const AttentionKernel& kernel) const;
  // Returns the gradients of query, key and value. Collective. slope: the gradient of the output. whole: the result of
  // forward(). Keys and values travel around the ring again, followed by their gradients.
  virtual Gradients backward(const at::Tensor& slope, const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const Result& whole, const AttentionKernel& kernel) const;

 protected:
  enum class Sight { nothing, causal, all };
  // Returns whether a piece of queries attends to nothing in a piece of keys, to all of it, or to the keys up to each
  // query's own position (causal).
  virtual Sight sight(const Piece& query, const Piece& key) const;

  Axis axis_;
  TokenCut cut_;
  Around around_;
  bool poison_;

 private:
  // A piece of queries and a piece of keys that it attends to, as positions in the tensors that this rank holds.
  struct Block {
    size_t piece = 0;  // index of the piece of queries among this rank's pieces
    Piece query, key;
    bool causal = false;
  };
  // The two transfers of a hop of the ring: a tensor to the next rank, and a tensor from the previous rank.
  struct Hop {
    pipeline::Transfer sent, received;
  };

  // Returns the rank that owns the keys and values which this rank holds after `hop` transfers around the ring.
  int source(int hop) const { return (axis_.rank + axis_.size - hop % axis_.size) % axis_.size; }
  std::vector<Block> blocks(int hop) const;
  // Starts the transfers of hop number `hop`: sends `held` to the next rank, and receives from the previous rank the
  // tensor that this rank holds afterwards. held: the stacked keys and values that this rank holds before the hop, or
  // their gradient.
  Hop begin(const at::Tensor& held, int hop, int tag) const;
  at::Tensor finish(Hop& hop) const;
};

// Ring attention as a differentiable operation: autograd runs the ring's forward() and backward().
at::Tensor ring_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const std::shared_ptr<const Ring>& ring,
                          const std::shared_ptr<const AttentionKernel>& kernel);

}  // namespace dpbench::context
