// A global batch split between replicas as torch.chunk splits it. If the batch has only ids, each replica loads its own
// samples.
#pragma once

#include <vector>

#include "workloads/api/workload.h"

namespace dpbench::dp {

class Pieces {
 public:
  Pieces(const Workload& workload, const Batch& batch, int64_t replicas);

  size_t count() const { return ids_.size(); }  // may be fewer than replicas
  // Returns a replica's piece, without a target. Safe to call concurrently for different replicas.
  Batch take(size_t replica);
  // Call after all pieces have been taken.
  at::Tensor target() const;

 private:
  const Workload& workload_;
  std::vector<at::Tensor> ids_, inputs_, targets_;
};

}  // namespace dpbench::dp
