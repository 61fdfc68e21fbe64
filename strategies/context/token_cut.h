// The division of a sequence's tokens among the ranks of the mesh axis cp.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "workloads/api/sequence_split.h"

namespace dpbench::context {

inline constexpr int64_t head_dim = 1, token_dim = 2;  // dimension indices in queries, keys and values

class TokenCut {
 public:
  // zigzag: the sequence is cut into twice as many pieces as there are ranks. The first rank has the first and the last
  // piece, the second rank has their neighbours, and so on. Later tokens attend to more keys, so zigzag balances the
  // work. Without zigzag, each rank has one piece. Sizes of pieces differ by at most 1.
  TokenCut(int64_t tokens, int ranks, bool zigzag);

  const std::vector<Piece>& of(int rank) const { return pieces_[static_cast<size_t>(rank)]; }
  const std::vector<int64_t>& counts() const { return counts_; }  // number of tokens of each rank
  int64_t count(int rank) const { return counts_[static_cast<size_t>(rank)]; }
  // Returns the sequence in its original order. by_rank: the tokens of the first rank, then those of the second, and so
  // on.
  at::Tensor in_order(const at::Tensor& by_rank, int64_t dim) const;

 private:
  std::vector<std::vector<Piece>> pieces_;
  std::vector<int64_t> counts_;
};

}  // namespace dpbench::context
