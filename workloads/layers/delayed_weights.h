// Computes weight gradients of linear layers later than the rest of their backward pass. Pipeline schedules with split
// backward passes (zero-bubble) use this.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

namespace dpbench {

class DelayedWeights {
 public:
  // While a Scope exists, linear layers called on its thread leave their weight gradients to `to`: their backward pass
  // stores the factors of the matrix product, and compute() multiplies them. If `to` is null, linear layers compute
  // their weight gradients themselves.
  class Scope {
   public:
    explicit Scope(std::shared_ptr<DelayedWeights> to);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::shared_ptr<DelayedWeights> before_;
  };

  // The object to which a linear layer called now leaves its weight gradient; null if the layer computes the gradient
  // itself.
  static std::shared_ptr<DelayedWeights> current();

  // gradient: a function that computes the gradient of a weight. weight: the edge of the autograd graph that leads to
  // the weight.
  void add(torch::autograd::Edge weight, std::function<at::Tensor()> gradient);
  // Computes the delayed gradients added since the last call, and adds them to the parameters' gradients. If a
  // parameter has several, they are summed first, in the order of the add() calls. The result has the bits of an
  // ordinary backward pass, unless the backward pass also computed a gradient of that parameter without delay.
  void compute();

 private:
  struct Product {
    torch::autograd::Edge weight;
    std::function<at::Tensor()> gradient;
  };
  std::vector<Product> products_;
};

}  // namespace dpbench
