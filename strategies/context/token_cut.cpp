#include "strategies/context/token_cut.h"

#include <map>

#include <ATen/ATen.h>

namespace dpbench::context {

TokenCut::TokenCut(int64_t tokens, int ranks, bool zigzag) {
  const std::vector<int64_t> sizes = even_pieces(tokens, zigzag ? 2 * ranks : ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Piece> mine = {piece_of(sizes, rank)};
    if (zigzag) mine.push_back(piece_of(sizes, 2 * ranks - 1 - rank));
    std::erase_if(mine, [](const Piece& piece) { return piece.size == 0; });
    int64_t count = 0;
    for (const Piece& piece : mine) count += piece.size;
    pieces_.push_back(mine);
    counts_.push_back(count);
  }
}

at::Tensor TokenCut::in_order(const at::Tensor& by_rank, int64_t dim) const {
  std::map<int64_t, at::Tensor> parts;  // pieces of the sequence, by the position of their first token
  int64_t before = 0;
  for (const auto& pieces : pieces_)
    for (const Piece& piece : pieces) {
      parts[piece.first] = by_rank.narrow(dim, before, piece.size);
      before += piece.size;
    }
  std::vector<at::Tensor> ordered;
  for (const auto& [first, part] : parts) ordered.push_back(part);
  return at::cat(ordered, dim);
}

}  // namespace dpbench::context
