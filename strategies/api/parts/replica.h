// A replica: one copy of a workload's model on one device. Every built-in strategy uses it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strategies/api/parts/batch_copies.h"
#include "strategies/api/parts/optimizer.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// Returns a micro-batch's loss divided by `micros`, the number of micro-batches of the step. split: how this rank
// exchanges activations with other ranks under tensor and context parallelism; empty if it exchanges none.
at::Tensor micro_loss(const Workload& workload, const at::Tensor& output, const at::Tensor& target, size_t micros,
                      const ModelSplit& split = {});

// Declarations for a strategy with the parameter "onednn", which calls Replica::use_onednn(): the parameter, the
// variant that tests it, and the property StrategyInfo::onednn.
ParamInfo onednn_param();
Variant onednn_variant();
void promise_onednn(StrategyInfo& info, const Params& params);

class Replica {
 public:
  Replica(const Workload& workload, at::Device device, at::ScalarType dtype, uint64_t init_seed, uint64_t step_seed);

  // Turns oneDNN on or off for large float32 products of linear layers. owner: the strategy's name for error messages.
  // Throws UsageError if `on` is true and the device is not a CPU, the runtime is torch's, or LibTorch has no oneDNN.
  void use_onednn(bool on, const std::string& owner);

  // Returns the whole batch, including ids, on the device, with floating-point tensors in the dtype storage(). Host
  // samples are copied to a GPU asynchronously on a separate stream.
  Batch to_device(const Batch& batch) const;
  // Runs a forward pass. If the dtype is bfloat16, it runs under autocast and its output is float32. split: how this
  // rank exchanges activations with other ranks under tensor, context and expert parallelism; empty if it exchanges
  // none.
  at::Tensor forward(int64_t step, const Batch& batch, const ModelSplit& split = {}) const;
  // Runs a forward pass as forward() does, but only through the model's blocks first .. last - 1. x: the output of the
  // block before them, or the samples.
  at::Tensor forward_span(size_t first, size_t last, const at::Tensor& x, int64_t step, const at::Tensor& ids,
                          const ModelSplit& split = {}) const;
  // Runs forward and backward pass over every micro-batch and accumulates gradients. Returns the output and the loss.
  StepResult passes(const Workload& workload, int64_t step, std::span<const Batch> micro, Phases& phases) const;
  // Runs a forward pass without gradients, with BatchNorm's running statistics.
  at::Tensor evaluate(const Batch& batch) const;

  const std::shared_ptr<Model>& shared_model() const { return model_; }
  const std::vector<Parameter>& trainable() const { return trainable_; }
  // Returns the tensors of all trainable parameters. Throws if there are none. who: the strategy's name, for the error
  // message.
  std::vector<at::Tensor> trainable_tensors(const std::string& who) const;
  // Returns parameters and buffers detached from autograd, so that a broadcast can write to them.
  std::vector<at::Tensor> detached() const;
  std::vector<at::Tensor> buffer_list() const;
  // Makes the parameters' gradients undefined, so that the next backward pass writes them instead of adding to them.
  void clear_gradients() const;

  NamedTensors parameters() const;  // Returns all parameters, including frozen ones.
  NamedTensors gradients() const;
  NamedTensors buffers() const;

  at::Device device() const { return device_; }
  at::ScalarType storage() const { return storage_; }

 private:
  template <class Forward>
  at::Tensor run(const Forward& forward) const;
  // True if the tensor has the dtype in which the replica stores tensors, so that it needs no cast.
  bool is_stored(const at::Tensor& tensor) const;

  std::shared_ptr<Model> model_;
  at::Device device_;
  at::ScalarType storage_;  // dtype in which parameters and inputs are stored
  bool autocast_, onednn_ = false;
  uint64_t step_seed_;
  std::unique_ptr<BatchCopies> copies_;  // host-to-device copies of samples; null on the CPU
  std::vector<Parameter> trainable_;
};

}  // namespace dpbench
