// Context parallelism: several ranks compute one model together, each with some of the tokens of every sample. Only
// attention needs the tokens of other ranks; a model calls a SequenceSplit for it.
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

// The properties of a model that context parallelism needs.
struct SequencePlan {
  // Length of the sequence, which is dimension 1 of input, target, activations and output; 0: the sequence cannot be
  // cut.
  int64_t tokens = 0;
  int64_t heads = 0;  // number of attention heads of a layer; heads / kv_heads of them share each key and value head
  int64_t kv_heads = 0;
  // For a strategy's traffic formula: the number of layers, and the number of features of one attention head.
  int64_t layers = 0, head_size = 0;
  size_t first_layer = 0;  // index of the block that is the first layer; each layer is one block
  // True if autocast converts queries and keys, or values and outputs of attention, to its dtype.
  bool casts_keys = false, casts_values = false;
};

// Computes attention of some queries over some keys. Tensors are [samples, heads, tokens, head size]. Keys and values
// may have fewer heads, each shared by a group of query heads. causal: query i sees keys 0 .. i, else all keys.
class AttentionKernel {
 public:
  virtual ~AttentionKernel() = default;
  // Returns causal attention over a whole sequence. Its gradients are those of ordinary autograd.
  virtual at::Tensor whole(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) const = 0;

  // The result of attention over a block of keys. logsumexp: log-sum-exp of the scores, of shape [samples, heads,
  // tokens], which gives the weight of this block's output when several blocks are merged. If undefined, attention has
  // no softmax, and the outputs of blocks are added.
  struct Result {
    at::Tensor output, logsumexp;
  };
  virtual Result block(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal) const = 0;
  // Returns what a block of keys contributes to the gradients of query, key and value. whole: the attention result over
  // all blocks. slope: the gradient of the loss with respect to whole.output.
  using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  virtual Gradients block_backward(const at::Tensor& slope, const at::Tensor& query, const at::Tensor& key,
                                   const at::Tensor& value, const Result& whole, bool causal) const = 0;
};

// Exchanges activations between ranks during one micro-batch. Every rank makes the same calls in the same order.
class SequenceSplit {
 public:
  virtual ~SequenceSplit() = default;

  // The model calls begin_block() before each of its blocks. name: the block's name, for messages of later errors.
  virtual void begin_block(const std::string& /*name*/) const {}
  // Returns the positions of this rank's tokens, as pieces of the whole sequence in ascending order.
  virtual const std::vector<Piece>& tokens() const = 0;
  // Returns the output of causal attention for this rank's queries, over the keys and values of all ranks.
  virtual at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const std::shared_ptr<const AttentionKernel>& kernel) const = 0;
  // Returns, on every rank, the sum of all ranks' x.
  virtual at::Tensor total(const at::Tensor& x) const = 0;
  // Joins the tokens of all ranks along dimension `dim`, in the order of the sequence. Returns the result on every
  // rank.
  virtual at::Tensor join(const at::Tensor& own, int64_t dim) const = 0;
};

// Cuts these pieces out of `whole` along dimension `dim` and returns them joined to one tensor.
inline at::Tensor pieces_of(const at::Tensor& whole, int64_t dim, const std::vector<Piece>& pieces) {
  std::vector<at::Tensor> parts;
  for (const Piece& piece : pieces) parts.push_back(whole.narrow(dim, piece.first, piece.size));
  return parts.size() == 1 ? parts[0] : at::cat(parts, dim);
}

// How a rank communicates with the other ranks that compute the same model: one object for tensor, one for context and
// one for expert parallelism. An object is null if the model is not divided in that way.
struct ModelSplit {
  std::shared_ptr<const TensorSplit> tensor = nullptr;
  std::shared_ptr<const SequenceSplit> sequence = nullptr;
  std::shared_ptr<const ExpertSplit> experts = nullptr;

  // True if this rank computes only a part of the output of its samples: with tensor or context parallelism. Expert
  // parallelism does not divide the output.
  bool cuts_output() const { return tensor || sequence; }
  void begin_block(const std::string& name) const {
    if (tensor) tensor->begin_block(name);
    if (sequence) sequence->begin_block(name);
    if (experts) experts->begin_block(name);
  }
  // Returns the tokens that this rank holds between divided layers (before TensorSplit::enter() and after
  // TensorSplit::leave()), as pieces of a sequence of `length` tokens.
  std::vector<Piece> tokens(int64_t length) const {
    if (!sequence) return {tensor ? tensor->sequence() : Piece{0, length}};
    return tensor ? pieces_within(sequence->tokens(), tensor->sequence()) : sequence->tokens();
  }

 private:
  // `range` counts the tokens of `pieces` from 0, in their order. Returns the tokens in `range` as pieces of the whole
  // sequence.
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
