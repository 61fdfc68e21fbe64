// BatchNorm over channels with a bias and no weight (Keras' scale=False). A strategy may synchronise it across ranks.
#pragma once

#include <functional>

#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>

namespace dpbench {

class BatchNorm : public torch::nn::Module {
 public:
  // Sums a float64 vector on the layer's device in place, over all ranks or replicas that share a batch. Called once in
  // a training forward pass and once in its backward pass, even for an empty shard.
  using Reduce = std::function<void(at::Tensor& sums)>;
  struct Hook : torch::CustomClassHolder {
    explicit Hook(Reduce r) : reduce(std::move(r)) {}
    Reduce reduce;
  };

  BatchNorm(int64_t channels, double epsilon, double momentum);

  at::Tensor forward(const at::Tensor& input);

  // Makes the statistics those of the global batch. An empty function turns this off.
  void set_reduce(Reduce reduce);

 private:
  at::Tensor synchronised(const at::Tensor& input);

  double epsilon_, momentum_;
  at::Tensor bias_, running_mean_, running_var_;
  c10::intrusive_ptr<Hook> hook_;
};

}  // namespace dpbench
