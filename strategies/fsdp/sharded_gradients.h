// The gradients of parameters of one dtype, sharded: each rank stores only its own rows, summed over all ranks.
#pragma once

#include <vector>

#include "strategies/fsdp/row_cut.h"
#include "strategies/fsdp/storage.h"
#include "strategies/parts/compat.h"

namespace dpbench::fsdp {

class ShardedGradients {
 public:
  // parameters: a list of at least one parameter; all of them must be trainable.
  ShardedGradients(const std::vector<at::Tensor>& parameters, const Storage& storage);

  void clear();
  // Starts a reduce-scatter of the gradients, multiplied by `share`, and frees the unsharded gradients. A parameter
  // without a gradient counts as zero.
  void begin_reduce(double share);
  // Waits for the reduce-scatter and adds its result to the sum over the step's earlier micro-batches. last: true in
  // the last micro-batch; finish_reduce() then also starts an all-reduce between the ranks that store the same rows,
  // and finish() waits for it.
  void finish_reduce(bool last);
  void finish();

  // True if a backward pass of this step gave the i-th parameter a gradient on this rank.
  bool used(size_t i) const { return used_[i]; }
  // Returns the gradient of this rank's rows of the i-th parameter. Undefined before a step.
  at::Tensor rows(size_t i) const;

 private:
  std::vector<at::Tensor> parameters_;
  Storage storage_;
  RowCut cut_;
  at::ScalarType dtype_;  // dtype of the gradients after the reduction
  std::vector<bool> used_;
  at::Tensor input_, output_;  // buffers of the reduce-scatter in flight
  at::Tensor sum_;             // gradients of this rank's rows as one flat tensor, summed over micro-batches
  WorkPtr reducing_, summing_;
};

}  // namespace dpbench::fsdp
