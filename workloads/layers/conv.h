// A 2-d convolution layer with a square kernel. Constructing it does not use torch's global random generator.
#pragma once

#include <array>

#include <ATen/ops/conv2d.h>
#include <torch/nn/module.h>

#include "workloads/layers/init.h"

namespace dpbench {

struct ConvShape {
  int64_t inputs, outputs, kernel;
  int64_t stride = 1, padding = 0;
  bool bias = false;
};

class Conv : public torch::nn::Module {
 public:
  Conv(const ConvShape& shape, Init init, const at::Generator& generator) : shape_(shape) {
    const std::array<int64_t, 4> sizes{shape.outputs, shape.inputs, shape.kernel, shape.kernel};
    weight_ = register_parameter("weight", init_weight(sizes, init, generator));
    if (shape.bias) bias_ = register_parameter("bias", init_bias(sizes, init, generator));
  }

  at::Tensor forward(const at::Tensor& input) const {
    return at::conv2d(input, weight_, bias_, shape_.stride, shape_.padding);
  }
  at::Tensor without_bias(const at::Tensor& input) const {
    return at::conv2d(input, weight_, {}, shape_.stride, shape_.padding);
  }
  // Returns the layer's bias in a shape that broadcasts over its output; undefined if the layer has no bias.
  at::Tensor bias() const { return bias_.defined() ? bias_.view({-1, 1, 1}) : bias_; }

 private:
  ConvShape shape_;
  at::Tensor weight_, bias_;
};

}  // namespace dpbench
