#include "workloads/gpt/layers.h"

#include <cmath>

#include <ATen/ATen.h>

#include "workloads/layers/linear.h"

namespace dpbench::gpt {

double residual_spread(const Shape& shape) { return initial_spread / std::sqrt(2 * static_cast<double>(shape.layers)); }

at::Tensor normal_tensor(at::IntArrayRef sizes, double spread, const at::Generator& generator) {
  return at::randn(sizes, generator).mul_(spread);
}

Dense::Dense(int64_t inputs, int64_t outputs, bool biased, double spread, const at::Generator& generator)
    : weight_(register_parameter("weight", normal_tensor({outputs, inputs}, spread, generator))) {
  if (biased) bias_ = register_parameter("bias", at::zeros({outputs}));
}

at::Tensor Dense::forward(const at::Tensor& x) const {
  auto sizes = x.sizes().vec();
  sizes.back() = weight_.size(0);
  return linear(x.reshape({-1, x.size(-1)}), weight_, bias_).view(sizes);
}

Embedding::Embedding(int64_t entries, int64_t hidden, const at::Generator& generator)
    : weight_(register_parameter("weight", normal_tensor({entries, hidden}, initial_spread, generator))) {}

Norm::Norm(Style style, int64_t hidden) : weight_(register_parameter("weight", at::ones({hidden}))) {
  if (style == Style::gpt2) bias_ = register_parameter("bias", at::zeros({hidden}));
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  constexpr double epsilon = 1e-5;
  return bias_.defined() ? at::layer_norm(x, weight_.sizes(), weight_, bias_, epsilon)
                         : at::rms_norm(x, weight_.sizes(), weight_, epsilon);
}

Mlp::Mlp(const Shape& shape, const at::Generator& generator) {
  const bool biased = shape.style == Style::gpt2;
  const auto dense = [&](const std::string& name, int64_t inputs, int64_t outputs, double spread) {
    return register_module(name, std::make_shared<Dense>(inputs, outputs, biased, spread, generator));
  };
  if (shape.style == Style::llama) gate_ = dense("gate_proj", shape.hidden, shape.mlp, initial_spread);
  up_ = dense("up_proj", shape.hidden, shape.mlp, initial_spread);
  down_ = dense("down_proj", shape.mlp, shape.hidden, residual_spread(shape));
}

at::Tensor Mlp::forward(const at::Tensor& x) const {
  const at::Tensor up = up_->forward(x);
  return down_->forward(gate_ ? at::silu(gate_->forward(x)) * up : at::gelu(up, "tanh"));
}

}  // namespace dpbench::gpt
