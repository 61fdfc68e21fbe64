// Selects the rows of a tensor that a sharded strategy stores on one rank. Dimension 0 is cut into equal pieces, but
// the last pieces may be smaller or empty.
#pragma once

#include <algorithm>

#include <ATen/ATen.h>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

// Returns the number of ranks over which a sharded strategy splits rows: the size of the mesh axis `shard` if it is
// larger than 1, otherwise of the default axis, dp.
inline int row_pieces(const Trial& trial) {
  if (trial.bench.distribution.parallelism != Parallelism::ranks) return 1;
  const MeshShape mesh = trial.bench.distribution.mesh_of_ranks();
  const int pieces = size_of(mesh, &KnownAxis::stores_rows);
  return pieces > 1 ? pieces : size_of(mesh, default_axis);
}

// Returns the rows of one rank's piece, but at most `most` rows. The tensor has at least one dimension.
inline at::Tensor rows_of_piece(const at::Tensor& tensor, int piece, int pieces, int64_t most = INT64_MAX) {
  const int64_t rows = tensor.size(0), each = (rows + pieces - 1) / pieces, first = std::min(rows, each * piece);
  return tensor.narrow(0, first, std::min({rows - first, each, most}));
}

}  // namespace dpbench
