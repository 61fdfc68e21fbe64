// Layers of a GPT that the other workloads do not have. Initial values come from an explicit generator.
#pragma once

#include <memory>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "workloads/api/tensor_split.h"
#include "workloads/gpt/shape.h"

namespace dpbench::gpt {

// Standard deviations of initial weights. residual_spread() is that of layers with outputs that are added to the
// residual stream.
inline constexpr double initial_spread = 0.02;
double residual_spread(const Shape& shape);

// Draws initial weights from its own random generator, so the same seed gives the same bits on any thread.
class InitialWeights {
 public:
  InitialWeights(uint64_t seed, bool exact);
  // Returns a matrix of normally distributed numbers. For exact models (gpt-exact), up to `ones` elements of each row
  // are 1 or -1 instead, and the rest are 0.
  at::Tensor operator()(int64_t rows, int64_t columns, double spread, int64_t ones) const;

 private:
  at::Generator generator_;
  bool exact_;
};

// A fully connected layer over the last dimension. The bias, if there is one, starts at 0.
class Dense : public torch::nn::Module {
 public:
  Dense(int64_t inputs, int64_t outputs, bool biased, double spread, const InitialWeights& weights);
  at::Tensor forward(const at::Tensor& x) const { return product(x, bias_); }
  // Returns the layer's output under tensor parallelism: this rank's x and weight have only some of the input features,
  // so the products are summed over ranks. If `split` is null, x and the weight have all features.
  at::Tensor summed(const at::Tensor& x, const TensorSplit* split) const;
  int64_t outputs() const { return weight_.size(0); }
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor product(const at::Tensor& x, const at::Tensor& bias) const;

  at::Tensor weight_, bias_;
};

// A table with one vector for each token of the vocabulary, or for each position. A tied head uses its weight for the
// logits.
class Embedding : public torch::nn::Module {
 public:
  Embedding(int64_t entries, int64_t hidden, const InitialWeights& weights);
  const at::Tensor& weight() const { return weight_; }
  // Returns the vectors of these token ids. Each rank has only some entries of the table, so the vectors are summed
  // over ranks.
  at::Tensor summed(const at::Tensor& ids, const TensorSplit& split) const;

 private:
  int64_t entries_;
  at::Tensor weight_;
};

// Returns the matrix product of x and the transposed weight, over the last dimension of x. During the product, the
// weight has additional rows of zeros, so that its number of rows is a multiple of `multiple`.
at::Tensor padded_product(const at::Tensor& x, const at::Tensor& weight, int64_t multiple);
// Returns the logits: the product of x and the transposed weight. On a GPU, the weight is padded with zeros to a
// multiple of 8 rows, because bfloat16 kernels take several times as long with numbers such as 50257.
at::Tensor logits_of(const at::Tensor& x, const at::Tensor& weight);

// The model's normalisation: LayerNorm with weight and bias for gpt2, RMSNorm with a weight for llama.
class Norm : public torch::nn::Module {
 public:
  explicit Norm(const Shape& shape);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  bool exact_;
  at::Tensor weight_, bias_;
};

// Returns the input of an MLP's last matrix: gelu(up) for gpt2, silu(gate) * up for llama. gate: undefined for gpt2.
// exact: true for the models of gpt-exact, in which ReLU replaces GELU and SiLU.
at::Tensor activated(bool exact, const at::Tensor& gate, const at::Tensor& up);

// The MLP of a layer: two matrices with GELU between them for gpt2, SwiGLU for llama: down(silu(gate(x)) * up(x)).
class Mlp : public torch::nn::Module {
 public:
  Mlp(const Shape& shape, const InitialWeights& weights);
  at::Tensor forward(const at::Tensor& x, const TensorSplit* split) const;

 private:
  bool exact_;
  std::shared_ptr<Dense> gate_, up_, down_;
};

}  // namespace dpbench::gpt
