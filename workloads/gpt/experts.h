// A mixture of experts in place of a layer's MLP. A router chooses some experts for each token. Under expert
// parallelism a rank has some of the experts, and tokens travel to the ranks of theirs.
#pragma once

#include <memory>
#include <vector>

#include <torch/nn/module.h>

#include "workloads/api/expert_split.h"
#include "workloads/gpt/layers.h"
#include "workloads/gpt/shape.h"

namespace dpbench::gpt {

// Returns how the experts are cut. Throws UsageError if there are fewer than ranks.
ExpertPlan expert_plan_of(const Shape& shape, int ranks);

// The same fully connected layer of every expert: a matrix for each.
class ExpertDense : public torch::nn::Module {
 public:
  ExpertDense(const Shape& shape, int64_t inputs, int64_t outputs, double spread, const InitialWeights& weights);
  // rows: by expert. Returns the product of each expert's rows with its matrix.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& rows) const;

 private:
  at::Tensor weight_, bias_;  // [experts, outputs, inputs] and [experts x outputs]
};

class Experts : public torch::nn::Module {
 public:
  Experts(const Shape& shape, const InitialWeights& weights);

  struct Output {
    at::Tensor y;        // [rows, tokens, hidden]
    at::Tensor balance;  // [rows]: how unevenly each sequence uses the experts; 1 if evenly
  };
  // x: [rows, tokens, hidden]. split: null if this rank has all experts.
  Output forward(const at::Tensor& x, const ExpertSplit* split) const;

 private:
  // The router's choice.
  struct Choice {
    at::Tensor experts, weights;  // [tokens of all rows, top_k]
    at::Tensor kept;              // the same shape: false if the expert drops the token; undefined: it drops none
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
