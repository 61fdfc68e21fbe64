// Tensor parallelism: several ranks compute one model together, each with a part of its layers. A model says which
// dimension of each parameter is cut; its blocks call a TensorSplit where the ranks must exchange activations.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

// A part of a dimension: elements first .. first + size - 1.
struct Piece {
  int64_t first = 0, size = 0;
};

// Returns the sizes of a dimension's pieces: multiples of `unit` that differ by at most one unit, the larger ones
// first. `size` must be a multiple of `unit`.
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

// A parameter or buffer of which each rank has a piece.
struct TensorCut {
  std::string name;  // the first of its names
  int64_t dim = 0;
  std::vector<int64_t> sizes;  // by rank
};

// How a model is cut for a number of ranks. Parameters and buffers that are not named are whole on every rank.
struct TensorPlan {
  std::vector<TensorCut> cuts;       // empty: the model cannot be divided
  std::vector<std::string> partial;  // whole parameters whose gradients must be summed over ranks
  // Length of the sequence, dimension 1 of the activations outside of enter() .. leave(), if it may be cut; otherwise
  // 0.
  int64_t tokens = 0;
  // For the formula of the traffic. Elements per sample: summed by leave() in a forward pass, summed by enter() in a
  // backward pass (both for the whole sequence), summed by the loss in total(), and compared by the loss in maximum().
  int64_t left = 0, entered = 0, totals = 0, maxima = 0;
};

// The exchange of activations of one micro-batch. Every rank makes the same calls in the same order.
class TensorSplit {
 public:
  virtual ~TensorSplit() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Called before each block of the model, with its name for error messages.
  virtual void begin_block(const std::string& /*name*/) const {}
  // Returns the piece of the sequence that this rank has outside of enter() .. leave(): all of it, unless the sequence
  // is cut.
  virtual Piece sequence() const = 0;
  // Returns the whole activation, for layers whose output features are cut. The backward pass sums its gradient over
  // ranks.
  virtual at::Tensor enter(const at::Tensor& x) const = 0;
  // Returns the sum of product(x) over ranks, for layers whose input features are cut. The product of some samples must
  // not depend on the others.
  using Product = std::function<at::Tensor(const at::Tensor& x)>;
  virtual at::Tensor leave(const at::Tensor& x, const Product& product) const = 0;
  // Returns the concatenation of all ranks' pieces along a dimension, on every rank.
  virtual at::Tensor join(const at::Tensor& piece, int64_t dim, const std::vector<int64_t>& sizes) const = 0;
  // Return the sum and the maximum over ranks, on every rank. The maximum has no gradient.
  virtual at::Tensor total(const at::Tensor& x) const = 0;
  virtual at::Tensor maximum(const at::Tensor& x) const = 0;
};

// Returns this rank's piece of a dimension that is cut evenly.
inline Piece own_piece(int64_t size, const TensorSplit& split) {
  return piece_of(even_pieces(size, split.ranks()), split.rank());
}

}  // namespace dpbench
