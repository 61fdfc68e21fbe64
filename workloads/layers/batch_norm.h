// BatchNorm over channels with a bias and no weight at all (Keras' scale=False). A strategy may make it span ranks.
#pragma once

#include <functional>

#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>

namespace dpbench {

class BatchNorm : public torch::nn::Module {
 public:
  // Adds up, in place and over all who share a batch, a vector of float64 on the layer's device. Called once in a
  // training forward and once in its backward, by a share without rows too.
  using Reduce = std::function<void(at::Tensor& sums)>;
  struct Hook : torch::CustomClassHolder {
    explicit Hook(Reduce r) : reduce(std::move(r)) {}
    Reduce reduce;
  };

  BatchNorm(int64_t channels, double epsilon, double momentum);

  at::Tensor forward(const at::Tensor& input);

  // With it the statistics are those of the whole batch however it is shared out; an empty function takes it away.
  void set_reduce(Reduce reduce);

 private:
  at::Tensor synchronised(const at::Tensor& input);

  double epsilon_, momentum_;
  at::Tensor bias_, running_mean_, running_var_;
  c10::intrusive_ptr<Hook> hook_;
};

}  // namespace dpbench
