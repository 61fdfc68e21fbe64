#include "workloads/layers/linear.h"

#include <string>

#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include "workloads/layers/onednn.h"
#include "workloads/layers/own_node.h"

namespace dpbench {
namespace {

struct LinearNode : torch::autograd::Node {
  torch::autograd::SavedVariable input, weight;
  bool by_onednn = false;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    enter_own_node(*this);
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor dy = std::move(gradients[0]);
    torch::autograd::variable_list results(3);
    if (!dy.defined()) return results;
    if (task_should_compute_output(0)) results[0] = product(dy, weight.unpack());
    if (task_should_compute_output(1)) results[1] = product(dy.t(), input.unpack());
    if (task_should_compute_output(2)) results[2] = dy.sum(0);
    return results;
  }
  void release_variables() override {
    input.reset_data();
    weight.reset_data();
  }
  std::string name() const override { return "LinearBackward"; }

  at::Tensor product(const at::Tensor& a, const at::Tensor& b) const {
    return by_onednn ? onednn_product(a, b.t()) : at::mm(a, b);
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const bool alike = weight.is_contiguous() && weight.scalar_type() == input.scalar_type() && weight.requires_grad();
  if (!alike || !takes_own_node(input)) return at::linear(input, weight, bias);
  const auto node = make_node<LinearNode>();
  node->by_onednn = OneDnnProducts::take(input, input.numel() * weight.size(0));
  at::Tensor output;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    if (node->by_onednn)
      output = onednn_product(input, weight, bias);
    else
      output = bias.defined() ? at::addmm(bias, input, weight.t()) : at::mm(input, weight.t());
  }
  node->set_next_edges(torch::autograd::collect_next_edges(input, weight, bias));
  node->input = {input, /*is_output=*/false};
  if (input.requires_grad()) node->weight = {weight, /*is_output=*/false};
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace dpbench
