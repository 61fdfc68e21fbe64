// One copy of a workload's model on one device. Every built-in strategy uses it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strategies/api/strategy.h"
#include "strategies/parts/optimizer.h"
#include "strategies/parts/row_copies.h"

namespace dpbench {

// Returns the loss of one of `micros` micro-batches, divided by their number.
at::Tensor micro_loss(const Workload& workload, const at::Tensor& output, const at::Tensor& target, size_t micros);

// The parameter, variant and promise that a strategy with Replica::use_onednn() declares.
ParamInfo onednn_param();
Variant onednn_variant();
void promise_onednn(StrategyInfo& info, const Params& params);

class Replica {
 public:
  Replica(const Workload& workload, at::Device device, at::ScalarType dtype, uint64_t init_seed, uint64_t step_seed);

  // Runs large float32 products of linear layers with oneDNN. owner: the strategy, for error messages. Throws
  // UsageError if oneDNN is not available.
  void use_onednn(bool on, const std::string& owner);

  // Copies the whole batch, including ids. Host samples are copied asynchronously on a separate stream.
  Batch to_device(const Batch& batch) const;
  // Training mode, under autocast when the dtype is bfloat16.
  at::Tensor forward(int64_t step, const Batch& batch) const;
  // Runs both passes over every micro-batch and accumulates gradients.
  StepResult passes(const Workload& workload, int64_t step, std::span<const Batch> micro, Phases& phases) const;
  at::Tensor evaluate(const Batch& batch) const;  // no gradient, running statistics

  const std::shared_ptr<Model>& shared_model() const { return model_; }
  const std::vector<Parameter>& trainable() const { return trainable_; }
  // Throws if no parameter is trainable. who: the strategy, for the error message.
  std::vector<at::Tensor> trainable_tensors(const std::string& who) const;
  std::vector<at::Tensor> detached() const;  // parameters and buffers, for a broadcast in place
  std::vector<at::Tensor> buffer_list() const;
  void clear_gradients() const;  // makes them undefined, so that the backward pass writes instead of adding

  NamedTensors parameters() const;  // including frozen ones
  NamedTensors gradients() const;
  NamedTensors buffers() const;

  at::Device device() const { return device_; }
  at::ScalarType storage() const { return storage_; }

 private:
  bool is_stored(const at::Tensor& tensor) const;  // true if no cast to the replica's dtype is needed

  std::shared_ptr<Model> model_;
  at::Device device_;
  at::ScalarType storage_;  // dtype of parameters and inputs
  bool autocast_, onednn_ = false;
  uint64_t step_seed_;
  std::unique_ptr<RowCopies> copies_;  // null on the CPU
  std::vector<Parameter> trainable_;
};

}  // namespace dpbench
