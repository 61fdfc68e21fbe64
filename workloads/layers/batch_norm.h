// A BatchNorm layer with a bias and no weight (Keras' scale=False). A strategy may synchronise its statistics across
// ranks.
#pragma once

#include <functional>

#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>

namespace dpbench {

class BatchNorm : public torch::nn::Module {
 public:
  // A function that sums a float64 vector in place over all ranks or replicas that share a batch. A training forward
  // pass calls it once, and its backward pass calls it once more, even on a replica without samples.
  using Reduce = std::function<void(at::Tensor& sums)>;
  struct Hook : torch::CustomClassHolder {
    explicit Hook(Reduce r) : reduce(std::move(r)) {}
    Reduce reduce;
  };

  BatchNorm(int64_t channels, double epsilon, double momentum);

  at::Tensor forward(const at::Tensor& input);

  // Makes the layer normalise by statistics of the global batch, which `reduce` sums over ranks. If `reduce` is empty,
  // the layer uses only its own samples again.
  void set_reduce(Reduce reduce);

 private:
  at::Tensor synchronised(const at::Tensor& input);

  double epsilon_, momentum_;
  at::Tensor bias_, running_mean_, running_var_;
  c10::intrusive_ptr<Hook> hook_;
};

}  // namespace dpbench
