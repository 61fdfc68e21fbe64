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

  // Applies dropout to `input`. Row i belongs to the sample context.ids[i]. In evaluation mode, returns the input
  // unchanged. first: index in the whole row of the first feature of `input`, if this rank has only a piece of each
  // row.
  at::Tensor forward(const at::Tensor& input, const Context& context, int64_t first = 0) const;
  // Applies dropout to an input of which each row consists of several pieces of the whole row. features: these pieces.
  at::Tensor forward(const at::Tensor& input, const Context& context, const std::vector<Piece>& features) const;

  // Return a dropout mask of shape [ids, features] with the values 0 and 1/(1-rate). mask_by_loop() computes it on the
  // CPU, mask_by_tensors() by tensor operations on any device, with the same bits; mask() chooses one of them.
  at::Tensor mask(const Context& context, const Piece& features, const at::TensorOptions& options) const;
  at::Tensor mask_by_loop(const Context& context, const Piece& features) const;
  at::Tensor mask_by_tensors(const Context& context, const Piece& features, const at::TensorOptions& options) const;

 private:
  uint64_t key(const Context& context) const;
  // Return one random key per sample. keyed() takes the step number from the context. keyed_on_device() takes it from
  // device memory: a step captured in a CUDA graph is replayed for other step numbers (see RecordedStep).
  at::Tensor keyed(const Context& context, const at::Tensor& ids) const;
  at::Tensor keyed_on_device(const Context& context, const at::Tensor& ids) const;

  double rate_;
  uint64_t layer_;
  int32_t threshold_;  // a feature is set to zero if its 24 random bits, as a number, are below this threshold
  double factor_;
};

}  // namespace dpbench
