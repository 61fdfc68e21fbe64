// One copy of a workload's model on one device: what every built-in strategy is made of.
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

// The loss of one of `micros` micro-batches.
at::Tensor micro_loss(const Workload& workload, const at::Tensor& output, const at::Tensor& target, size_t micros);

// What a strategy declares that lets its replicas on CPU devices use_onednn().
ParamInfo onednn_param();
Variant onednn_variant();
void promise_onednn(StrategyInfo& info, const Params& params);

class Replica {
 public:
  Replica(const Workload& workload, at::Device device, at::ScalarType dtype, uint64_t init_seed, uint64_t step_seed);

  // Large float32 products of linear layers by oneDNN from now on; owner: whose parameter says so. Throws UsageError
  // where there is none.
  void use_onednn(bool on, const std::string& owner);

  // All of it, ids too. Rows of the host travel on a stream of their own; the host does not wait for them.
  Batch to_device(const Batch& batch) const;
  // Training mode, under autocast when the dtype is bfloat16.
  at::Tensor forward(int64_t step, const Batch& batch) const;
  // Both passes over every micro-batch; gradients add up.
  StepResult passes(const Workload& workload, int64_t step, std::span<const Batch> micro, Phases& phases) const;
  at::Tensor evaluate(const Batch& batch) const;  // no gradient, running statistics

  const std::shared_ptr<Model>& shared_model() const { return model_; }
  const std::vector<Parameter>& trainable() const { return trainable_; }
  // Throws where there is none; who: the strategy that wants them.
  std::vector<at::Tensor> trainable_tensors(const std::string& who) const;
  std::vector<at::Tensor> detached() const;  // parameters and buffers, for a broadcast in place
  std::vector<at::Tensor> buffer_list() const;
  void clear_gradients() const;  // undefined again: the backward pass then writes instead of adding

  NamedTensors parameters() const;  // all of them, frozen ones too
  NamedTensors gradients() const;
  NamedTensors buffers() const;

  at::Device device() const { return device_; }
  at::ScalarType storage() const { return storage_; }

 private:
  bool is_stored(const at::Tensor& tensor) const;  // of the dtype of this replica, where it is of floating point

  std::shared_ptr<Model> model_;
  at::Device device_;
  at::ScalarType storage_;  // of parameters and inputs
  bool autocast_, onednn_ = false;
  uint64_t step_seed_;
  std::unique_ptr<RowCopies> copies_;  // none on the CPU
  std::vector<Parameter> trainable_;
};

}  // namespace dpbench
