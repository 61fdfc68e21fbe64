// A fully connected layer. Unlike torch::nn::Linear, constructing it does not use torch's global random generator.
#pragma once

#include <torch/nn/module.h>

#include "workloads/layers/init.h"

namespace dpbench {

// Same as at::linear, but with one autograd node instead of three (if plain_on_cpu() of own_node.h allows it). Gives
// the same bits, unless OneDnnProducts is on. bias: undefined if there is none.
at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias);

class Linear : public torch::nn::Module {
 public:
  Linear(int64_t inputs, int64_t outputs, Init init, const at::Generator& generator)
      : weight_(register_parameter("weight", init_weight({outputs, inputs}, init, generator))),
        bias_(register_parameter("bias", init_bias({outputs, inputs}, init, generator))) {}

  at::Tensor forward(const at::Tensor& input) const { return linear(input, weight_, bias_); }
  at::Tensor without_bias(const at::Tensor& input) const { return linear(input, weight_, at::Tensor()); }
  const at::Tensor& bias() const { return bias_; }

 private:
  at::Tensor weight_, bias_;
};

}  // namespace dpbench
