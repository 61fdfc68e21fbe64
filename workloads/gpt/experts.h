// A mixture of experts in place of a layer's MLP. A router selects some experts for each token. Under expert
// parallelism, a rank holds some of the experts, and each token is sent to the ranks of its experts.
#pragma once

#include <memory>
#include <vector>

#include <torch/nn/module.h>

#include "workloads/api/expert_split.h"
#include "workloads/gpt/layers.h"
#include "workloads/gpt/shape.h"

namespace dpbench::gpt {

// Returns how the experts are divided among ranks. Throws UsageError if there are fewer experts than ranks.
ExpertPlan expert_plan_of(const Shape& shape, int ranks);

// One fully connected layer (such as up_proj) of all experts together: each expert has its own weight matrix.
class ExpertDense : public torch::nn::Module {
 public:
  ExpertDense(const Shape& shape, int64_t inputs, int64_t outputs, double spread, const InitialWeights& weights);
  // Returns the layer's output for each expert. rows[i]: the tokens of expert i, which are multiplied by that expert's
  // matrix; its bias is added.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& rows) const;

 private:
  at::Tensor weight_;  // matrices of all experts, of shape [experts, outputs, inputs]
  at::Tensor bias_;    // biases of all experts, of shape [experts * outputs]; undefined for llama
};

class Experts : public torch::nn::Module {
 public:
  Experts(const Shape& shape, const InitialWeights& weights);

  struct Output {
    at::Tensor y;  // output of the layer, of shape [samples, tokens, hidden]
    // Balance loss of each sequence, of shape [samples]; it is 1 if the sequence's tokens use all experts evenly.
    at::Tensor balance;
  };
  // x: input of shape [samples, tokens, hidden]. split: how tokens are sent to the ranks of their experts; null if this
  // rank has all experts.
  Output forward(const at::Tensor& x, const ExpertSplit* split) const;

 private:
  // The router's choice of experts for each token.
  struct Choice {
    // The experts selected for each token, and the weight of each; shape [tokens of all samples, top_k].
    at::Tensor experts, weights;
    // False where a selected expert drops the token, in the shape of `experts`. Undefined if no expert drops tokens.
    at::Tensor kept;
    at::Tensor balance;
  };
  Choice choose(const at::Tensor& x) const;
  at::Tensor balance_of(const at::Tensor& scores, const at::Tensor& uses) const;
  at::Tensor computed(const at::Tensor& rows, const std::vector<int64_t>& counts) const;
  at::Tensor computed_by_all(const at::Tensor& rows, const std::vector<int64_t>& counts,
                             const ExpertSplit& split) const;

  Shape shape_;
  std::shared_ptr<Dense> router_;
  std::shared_ptr<ExpertDense> gate_, up_, down_;
};

}  // namespace dpbench::gpt
