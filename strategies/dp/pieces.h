// A global batch cut for the replicas as torch.chunk cuts it. Rows that did not come with it are got by each replica.
#pragma once

#include <vector>

#include "workloads/api/workload.h"

namespace dpbench::dp {

class Pieces {
 public:
  Pieces(const Workload& workload, const Batch& batch, int64_t replicas);

  size_t count() const { return ids_.size(); }  // may be fewer than replicas
  // Without a target. Each replica its own, at the same time as the others.
  Batch take(size_t replica);
  // When all have been taken.
  at::Tensor target() const;

 private:
  const Workload& workload_;
  std::vector<at::Tensor> ids_, inputs_, targets_;
};

}  // namespace dpbench::dp
