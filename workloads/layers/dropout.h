// Dropout whose mask depends on (seed, step, layer, sample id, feature) alone: the same however rows are shared out.
#pragma once

#include <torch/nn/module.h>

#include "workloads/api/workload.h"

namespace dpbench {

class Dropout : public torch::nn::Module {
 public:
  // layer: tells the dropout layers of one model apart. 0 <= rate < 1 is the share of features set to zero.
  Dropout(double rate, uint64_t layer);

  // input: a row for each of context.ids. Returned as it is in evaluation mode.
  at::Tensor forward(const at::Tensor& input, const Context& context) const;

  // [ids, features] of 0 and 1/(1-rate). The loop for a CPU and the tensor operations for other devices agree bit for
  // bit.
  at::Tensor mask(const Context& context, int64_t features, const at::TensorOptions& options) const;
  at::Tensor mask_by_loop(const Context& context, int64_t features) const;
  at::Tensor mask_by_tensors(const Context& context, int64_t features, const at::TensorOptions& options) const;

 private:
  uint64_t key(const Context& context) const;
  // A key for each row, from the number of the step that the context holds or from RecordedStep's on the device.
  at::Tensor keyed(const Context& context, const at::Tensor& ids) const;
  at::Tensor keyed_on_device(const Context& context, const at::Tensor& ids) const;

  uint64_t layer_;
  int32_t threshold_;  // of 24 random bits: below it a feature is dropped
  double factor_;
};

}  // namespace dpbench
