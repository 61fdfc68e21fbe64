// Delays the weight gradients of linear layers until after the rest of the backward pass. Pipeline schedules that split
// backward passes (zero-bubble) need this.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

namespace dpbench {

class DelayedWeights {
 public:
  // While a Scope exists, linear layers that are called on its thread delay their weight gradients: the backward pass
  // only stores the factors of the matrix product in `to`, and compute() multiplies them later. If `to` is null, the
  // backward pass computes the weight gradients.
  class Scope {
   public:
    explicit Scope(std::shared_ptr<DelayedWeights> to);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::shared_ptr<DelayedWeights> before_;
  };

  // Returns the object in which linear layers on this thread currently store their delayed weight gradients; null if
  // gradients are not delayed.
  static std::shared_ptr<DelayedWeights> current();

  // Adds a delayed gradient of a weight. gradient: a function that computes it. weight: the edge of the autograd graph
  // that leads to the weight.
  void add(torch::autograd::Edge weight, std::function<at::Tensor()> gradient);
  // Computes the delayed gradients that were added since the last call, and adds them to the parameters' gradients. If
  // there are several of one parameter, they are summed first, in the order in which they were added. The result has
  // the bits of an ordinary backward pass, unless some other use of the parameter already had its gradient computed
  // without delay.
  void compute();

 private:
  struct Product {
    torch::autograd::Edge weight;
    std::function<at::Tensor()> gradient;
  };
  std::vector<Product> products_;
};

}  // namespace dpbench
