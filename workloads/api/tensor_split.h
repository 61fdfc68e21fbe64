// Tensor parallelism: several ranks compute one model together, each with a part of its layers. A model says which
// dimension of each parameter is cut; its blocks call a TensorSplit where the ranks must exchange activations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

// A part of a dimension: elements first .. first + size - 1.
struct Piece {
  int64_t first = 0, size = 0;
};

// Divides a dimension among ranks and returns the size of each rank's piece. Sizes are multiples of `unit` (as is
// `size`), differ by at most one unit, and do not increase from rank to rank.
inline std::vector<int64_t> even_pieces(int64_t size, int ranks, int64_t unit = 1) {
  const int64_t units = size / unit, each = units / ranks, more = units % ranks;
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < ranks; ++rank) sizes.push_back((each + (rank < more ? 1 : 0)) * unit);
  return sizes;
}

inline Piece piece_of(const std::vector<int64_t>& sizes, int rank) {
  Piece piece;
  for (int before = 0; before < rank; ++before) piece.first += sizes[static_cast<size_t>(before)];
  piece.size = sizes[static_cast<size_t>(rank)];
  return piece;
}

// A parameter or buffer that is divided among the ranks along one dimension.
struct TensorCut {
  std::string name;  // the parameter's name; if it is tied and has several names, the first one
  int64_t dim = 0;
  std::vector<int64_t> sizes;  // size of the piece of each rank
};

// The calls of one function of TensorSplit in a micro-batch, for a strategy's traffic formula. elements: number of
// elements per sample that all calls exchange together, for the whole sequence. If each token has equally many, it is a
// multiple of TensorPlan::tokens. cast: how many of these elements autocast converts to its dtype.
struct SplitCalls {
  int64_t elements = 0, cast = 0, calls = 0;

  void add(int64_t more, bool is_cast = false) { elements += more, cast += is_cast ? more : 0, ++calls; }
};
using CallsOfBlocks = std::map<size_t, SplitCalls>;  // by index of the block; 0 for a model without blocks

// How a model is divided among ranks for tensor parallelism. Every rank has the whole of all parameters and buffers
// that the plan does not name.
struct TensorPlan {
  std::vector<TensorCut> cuts;  // the parameters that are cut among ranks; empty: the model cannot be divided
  // Names of parameters that are not cut, but of which each rank computes only a part of the gradient, so that the
  // gradients must be summed over ranks.
  std::vector<std::string> partial;
  // Length of the sequence, if it may be cut between the divided layers; else 0. The sequence is dimension 1 of the
  // activations before enter() and after leave().
  int64_t tokens = 0;
  // left: calls of leave() in a forward pass. entered: gradient sums of enter() in a backward pass.
  CallsOfBlocks left, entered;
  SplitCalls totals, maxima;  // calls of total() and maximum() in the loss
};

// Exchanges activations between ranks during one micro-batch. Every rank makes the same calls in the same order.
class TensorSplit {
 public:
  virtual ~TensorSplit() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // The model calls begin_block() before each of its blocks. name: the block's name, for messages of later errors.
  virtual void begin_block(const std::string& /*name*/) const {}
  // Returns the piece of the sequence that this rank has between divided layers (before enter() and after leave()).
  // This is the whole sequence, unless the sequence is cut there.
  virtual Piece sequence() const = 0;
  // Call it before a layer with divided output features. Returns the whole activation on every rank. The backward pass
  // sums the gradient of x over ranks.
  virtual at::Tensor enter(const at::Tensor& x) const = 0;
  // Call it for a layer with divided input features. Returns the sum of product(x) over ranks; if the sequence is cut,
  // only this rank's piece of the sum. product() must compute each sample independently of the others.
  using Product = std::function<at::Tensor(const at::Tensor& x)>;
  virtual at::Tensor leave(const at::Tensor& x, const Product& product) const = 0;
  // Returns the concatenation of all ranks' pieces along a dimension, on every rank.
  virtual at::Tensor join(const at::Tensor& piece, int64_t dim, const std::vector<int64_t>& sizes) const = 0;
  // total() returns the sum of x over ranks, and maximum() the element-wise maximum, each on every rank. The maximum
  // has no gradient.
  virtual at::Tensor total(const at::Tensor& x) const = 0;
  virtual at::Tensor maximum(const at::Tensor& x) const = 0;
};

// Returns the piece of this rank, if a dimension of this size is divided evenly among the ranks.
inline Piece own_piece(int64_t size, const TensorSplit& split) {
  return piece_of(even_pieces(size, split.ranks()), split.rank());
}

}  // namespace dpbench
