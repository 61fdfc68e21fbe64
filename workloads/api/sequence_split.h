// Context parallelism: several ranks compute one model together, each with some of the tokens of every sample. Only
// attention needs the tokens of other ranks: there a model calls a SequenceSplit.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

#include "workloads/api/expert_split.h"
#include "workloads/api/tensor_split.h"

namespace dpbench {

// What context parallelism needs to know of a model.
struct SequencePlan {
  int64_t tokens = 0;  // dimension 1 of input, target, activations and output; 0: the sequence cannot be cut
  int64_t heads = 0;   // attention heads of a layer; whole groups of them share a key and value head
  int64_t kv_heads = 0;
  // For the formula of the traffic:
  int64_t layers = 0, head_size = 0;
};

// Attention of some queries over some keys. Tensors are [rows, heads, tokens, head size]; there may be fewer heads of
// keys and values, each for a group of query heads. causal: query i sees the keys 0 .. i; otherwise, all keys.
class AttentionKernel {
 public:
  virtual ~AttentionKernel() = default;
  // Causal attention over a whole sequence, with autograd.
  virtual at::Tensor whole(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) const = 0;

  // The result over a block of keys. logsumexp [rows, heads, tokens]: log-sum-exp of the scores, which weights the
  // outputs of blocks that are merged. If it is undefined, attention has no softmax, and outputs are added.
  struct Result {
    at::Tensor output, logsumexp;
  };
  virtual Result block(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal) const = 0;
  // Returns the block's contribution to the gradients of query, key and value. whole: the result over all blocks.
  // slope: the gradient of its output.
  using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  virtual Gradients block_backward(const at::Tensor& slope, const at::Tensor& query, const at::Tensor& key,
                                   const at::Tensor& value, const Result& whole, bool causal) const = 0;
};

// The exchange of one micro-batch. Every rank makes the same calls in the same order.
class SequenceSplit {
 public:
  virtual ~SequenceSplit() = default;

  // Called before each block of the model, with its name for error messages.
  virtual void begin_block(const std::string& /*name*/) const {}
  // This rank's tokens, in the order in which it holds them: pieces of the whole sequence, the first tokens first.
  virtual const std::vector<Piece>& tokens() const = 0;
  // Returns the output of causal attention over all ranks' tokens for this rank's queries.
  virtual at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const std::shared_ptr<const AttentionKernel>& kernel) const = 0;
  // Returns the sum over ranks, on every rank.
  virtual at::Tensor total(const at::Tensor& x) const = 0;
  // Returns the whole sequence of all ranks' tokens in their order, on every rank.
  virtual at::Tensor join(const at::Tensor& own, int64_t dim) const = 0;
};

// Cuts pieces out of a dimension and joins them.
inline at::Tensor pieces_of(const at::Tensor& whole, int64_t dim, const std::vector<Piece>& pieces) {
  std::vector<at::Tensor> parts;
  for (const Piece& piece : pieces) parts.push_back(whole.narrow(dim, piece.first, piece.size));
  return parts.size() == 1 ? parts[0] : at::cat(parts, dim);
}

// The exchanges of a rank that computes a model together with other ranks. A pointer is null if the model is not
// divided in that way.
struct ModelSplit {
  std::shared_ptr<const TensorSplit> tensor = nullptr;
  std::shared_ptr<const SequenceSplit> sequence = nullptr;
  std::shared_ptr<const ExpertSplit> experts = nullptr;

  // True if a rank computes only a part of its samples' output. With experts it computes all of it.
  bool cuts_output() const { return tensor || sequence; }
  void begin_block(const std::string& name) const {
    if (tensor) tensor->begin_block(name);
    if (sequence) sequence->begin_block(name);
    if (experts) experts->begin_block(name);
  }
  // Returns the tokens that this rank has outside of TensorSplit::enter() .. leave(), as pieces of a sequence of this
  // length.
  std::vector<Piece> tokens(int64_t length) const {
    if (!sequence) return {tensor ? tensor->sequence() : Piece{0, length}};
    return tensor ? pieces_within(sequence->tokens(), tensor->sequence()) : sequence->tokens();
  }

 private:
  // Returns the part of `pieces` that lies in `range`, which counts the tokens of `pieces` from 0.
  static std::vector<Piece> pieces_within(const std::vector<Piece>& pieces, const Piece& range) {
    std::vector<Piece> found;
    int64_t before = 0;
    for (const Piece& piece : pieces) {
      const int64_t first = std::max(range.first - before, int64_t{0});
      const int64_t end = std::min(range.first + range.size - before, piece.size);
      if (first < end) found.push_back({piece.first + first, end - first});
      before += piece.size;
    }
    return found;
  }
};

}  // namespace dpbench
