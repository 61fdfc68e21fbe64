// A dropout layer with a mask that depends only on (seed, step, layer, sample id, feature), so it is the same however
// samples are split between replicas.
#pragma once

#include <vector>

#include <torch/nn/module.h>

#include "workloads/api/workload.h"

namespace dpbench {

class Dropout : public torch::nn::Module {
 public:
  // rate: fraction of features set to zero, in [0, 1). layer: number of this dropout layer, unique in its model.
  Dropout(double rate, uint64_t layer);
  double rate() const { return rate_; }

  // Applies dropout to `input`; row i belongs to the sample context.ids[i]. Returns the input unchanged in evaluation
  // mode. first: number of the row's first feature, if `input` is a piece of the layer's whole input.
  at::Tensor forward(const at::Tensor& input, const Context& context, int64_t first = 0) const;
  // Applies dropout to an input that consists of several pieces of the row's features.
  at::Tensor forward(const at::Tensor& input, const Context& context, const std::vector<Piece>& features) const;

  // mask(), mask_by_loop() and mask_by_tensors() return a mask [ids, features] of the values 0 and 1/(1-rate). The CPU
  // loop and the tensor operations give the same bits.
  at::Tensor mask(const Context& context, const Piece& features, const at::TensorOptions& options) const;
  at::Tensor mask_by_loop(const Context& context, const Piece& features) const;
  at::Tensor mask_by_tensors(const Context& context, const Piece& features, const at::TensorOptions& options) const;

 private:
  uint64_t key(const Context& context) const;
  // keyed() and keyed_on_device() return one random key per sample. keyed() takes the step number from the context,
  // keyed_on_device() from device memory, as a step captured in a CUDA graph must (see RecordedStep).
  at::Tensor keyed(const Context& context, const at::Tensor& ids) const;
  at::Tensor keyed_on_device(const Context& context, const at::Tensor& ids) const;

  double rate_;
  uint64_t layer_;
  int32_t threshold_;  // a feature is dropped if its 24 random bits are below this number
  double factor_;
};

}  // namespace dpbench
