#include "strategies/dp/pieces.h"

#include <ATen/ATen.h>

#include "workloads/base/error.h"
#include "workloads/base/joined_samples.h"

namespace dpbench::dp {

Pieces::Pieces(const Workload& workload, const Batch& batch, int64_t replicas)
    : workload_(workload),
      whole_(batch.input.defined()),
      ids_(batch.ids.chunk(replicas)),
      inputs_(whole_ ? batch.input.chunk(replicas) : std::vector<at::Tensor>(ids_.size())),
      targets_(whole_ ? std::vector<at::Tensor>{batch.target} : std::vector<at::Tensor>(ids_.size())) {}

Batch Pieces::take(size_t replica) {
  if (whole_) return {inputs_[replica], {}, ids_[replica]};
  Batch mine = workload_.batch(ids_[replica]);
  inputs_[replica] = mine.input;
  targets_[replica] = mine.target;
  return mine;
}

at::Tensor Pieces::target() const {
  if (!same_sample_shapes(inputs_) || !same_sample_shapes(targets_))
    throw UsageError(
        "dp divides one batch, but batch() pads the samples of each replica to another shape. Pad all samples to one "
        "shape");
  return targets_.size() == 1 ? targets_[0] : at::cat(targets_);
}

}  // namespace dpbench::dp
