#include "workloads/data/shares.h"

#include "workloads/error.h"

namespace dpbench {

std::vector<Share> blocks(int64_t rows, int64_t world) {
  check(rows >= 0 && world >= 1, "a batch is shared by at least one rank");
  std::vector<Share> shares;
  for (int64_t rank = 0, first = 0; rank < world; first += shares[rank++].rows)
    shares.push_back({first, rows / world + (rank < rows % world)});
  return shares;
}

std::vector<Share> strides(int64_t rows, int64_t world) {
  auto shares = blocks(rows, world);
  for (int64_t rank = 0; rank < world; ++rank) shares[rank] = {rank, shares[rank].rows, world};
  return shares;
}

}  // namespace dpbench
