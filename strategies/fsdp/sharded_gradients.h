// Sharded gradients of parameters of one dtype: each rank stores its own rows, summed over all ranks.
#pragma once

#include <vector>

#include "strategies/exchange/compat.h"
#include "strategies/fsdp/row_cut.h"
#include "strategies/fsdp/storage.h"

namespace dpbench::fsdp {

class ShardedGradients {
 public:
  // parameters: at least one; all are trained.
  ShardedGradients(const std::vector<at::Tensor>& parameters, const Storage& storage);

  void clear();
  // Starts to sum the gradients of all ranks, multiplied by `share`, and frees them. A parameter without a gradient
  // counts as zero.
  void begin_reduce(double share);
  // Waits for the reduction, and adds its result to that of the step's earlier micro-batches. last: true in the last
  // micro-batch. It then starts the sum over the ranks that store the same rows, for which finish() waits.
  void finish_reduce(bool last);
  void finish();

  // True if a backward pass of this step gave the i-th parameter a gradient on this rank.
  bool used(size_t i) const { return used_[i]; }
  // Returns the gradient of this rank's rows. Undefined before a step.
  at::Tensor rows(size_t i) const;

 private:
  std::vector<at::Tensor> parameters_;
  Storage storage_;
  RowCut cut_;
  at::ScalarType dtype_;  // dtype of the gradients after the reduction
  std::vector<bool> used_;
  at::Tensor input_, output_;  // buffers of a reduction in progress
  at::Tensor sum_;             // flat
  WorkPtr reducing_, summing_;
};

}  // namespace dpbench::fsdp
