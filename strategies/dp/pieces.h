// Splits a global batch between replicas, as torch.chunk does. If the batch has only sample ids, each replica loads its
// own samples.
#pragma once

#include <vector>

#include "workloads/api/workload.h"

namespace dpbench::dp {

class Pieces {
 public:
  Pieces(const Workload& workload, const Batch& batch, int64_t replicas);

  // Number of pieces of the batch; may be smaller than the number of replicas.
  size_t count() const { return ids_.size(); }
  // Returns a replica's piece of the batch, without the targets (labels). Safe to call concurrently for different
  // replicas.
  Batch take(size_t replica);
  // Returns the targets (labels) of the whole batch. Call it after all pieces have been taken.
  at::Tensor target() const;

 private:
  const Workload& workload_;
  const bool whole_;  // false: each replica loads its own samples
  std::vector<at::Tensor> ids_, inputs_, targets_;
};

}  // namespace dpbench::dp
