// The rows that a sharded strategy gives each rank: dimension 0 is cut into equal pieces, of which the last ones may be
// smaller or empty.
#pragma once

#include <algorithm>

#include <ATen/ATen.h>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

// Returns the number of ranks over which a strategy cuts: those of the axis shard if the mesh has it, else of dp.
inline int row_pieces(const Trial& trial) {
  if (trial.bench.layout.parallelism != Parallelism::ranks) return 1;
  const MeshShape mesh = trial.bench.layout.mesh_of_ranks();
  return size_of(mesh, size_of(mesh, "shard") > 1 ? "shard" : "dp");
}

// Returns the rows of a piece, at most `most` of them. The tensor has at least one dimension.
inline at::Tensor rows_of_piece(const at::Tensor& tensor, int piece, int pieces, int64_t most = INT64_MAX) {
  const int64_t rows = tensor.size(0), each = (rows + pieces - 1) / pieces, first = std::min(rows, each * piece);
  return tensor.narrow(0, first, std::min({rows - first, each, most}));
}

}  // namespace dpbench
