#include "strategies/dp/pieces.h"

#include <ATen/ATen.h>

namespace dpbench::dp {

Pieces::Pieces(const Workload& workload, const Batch& batch, int64_t replicas)
    : workload_(workload), ids_(batch.ids.chunk(replicas)) {
  if (batch.input.defined()) {
    inputs_ = batch.input.chunk(replicas);
    targets_ = {batch.target};
  } else {
    targets_.resize(ids_.size());
  }
}

Batch Pieces::take(size_t replica) {
  if (!inputs_.empty()) return {inputs_[replica], {}, ids_[replica]};
  Batch mine = workload_.batch(ids_[replica]);
  targets_[replica] = mine.target;
  return mine;
}

at::Tensor Pieces::target() const { return targets_.size() == 1 ? targets_[0] : at::cat(targets_); }

}  // namespace dpbench::dp
