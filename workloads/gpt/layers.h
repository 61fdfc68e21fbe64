// Layers of a GPT that the other workloads do not have. Initial values come from an explicit generator.
#pragma once

#include <memory>

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include "workloads/gpt/shape.h"

namespace dpbench::gpt {

// Standard deviation of initial weights, and that of the layers whose output is added to the residual stream.
inline constexpr double initial_spread = 0.02;
double residual_spread(const Shape& shape);

at::Tensor normal_tensor(at::IntArrayRef sizes, double spread, const at::Generator& generator);

// A fully connected layer over the last dimension, with normally distributed weights and a zero bias or none.
class Dense : public torch::nn::Module {
 public:
  Dense(int64_t inputs, int64_t outputs, bool biased, double spread, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;
};

// The table of a vector for each token or position. Only a weight: a tied head multiplies by it.
class Embedding : public torch::nn::Module {
 public:
  Embedding(int64_t entries, int64_t hidden, const at::Generator& generator);
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

// LayerNorm with weight and bias for gpt2, RMSNorm with a weight for llama.
class Norm : public torch::nn::Module {
 public:
  Norm(Style style, int64_t hidden);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;
};

// Two matrices with GELU between them for gpt2; for llama, SwiGLU: down(silu(gate(x)) up(x)).
class Mlp : public torch::nn::Module {
 public:
  Mlp(const Shape& shape, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  std::shared_ptr<Dense> gate_, up_, down_;
};

}  // namespace dpbench::gpt
