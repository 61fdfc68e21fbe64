#include "workloads/layers/linear.h"

#include <memory>
#include <string>
#include <utility>

#include <ATen/autocast_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include "workloads/layers/delayed_weights.h"
#include "workloads/layers/onednn.h"
#include "workloads/layers/own_node.h"

namespace dpbench {
namespace {

struct LinearNode : torch::autograd::Node {
  torch::autograd::SavedVariable input, weight;
  bool by_onednn = false;
  // Computes the gradient of the weight later; null if the backward pass computes it.
  std::shared_ptr<DelayedWeights> delayed;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    enter_own_node(*this);
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor dy = std::move(gradients[0]);
    torch::autograd::variable_list results(3);
    if (!dy.defined()) return results;
    if (task_should_compute_output(0)) results[0] = product(dy, weight.unpack(), by_onednn);
    if (task_should_compute_output(1)) {
      if (delayed)
        // The stored function must keep the values of the input, but not the graph that computed the input. So it gets
        // the input detached.
        delayed->add(next_edge(1),
                     [dy, x = input.unpack().detach(), onednn = by_onednn] { return product(dy.t(), x, onednn); });
      else
        results[1] = product(dy.t(), input.unpack(), by_onednn);
    }
    if (task_should_compute_output(2)) results[2] = dy.sum(0);
    return results;
  }
  void release_variables() override {
    input.reset_data();
    weight.reset_data();
  }
  std::string name() const override { return "LinearBackward"; }

  static at::Tensor product(const at::Tensor& a, const at::Tensor& b, bool onednn) {
    return onednn ? onednn_product(a, b.t()) : at::mm(a, b);
  }
};

// If autocast is on, returns the tensor in the dtype in which autocast runs linear layers; else the tensor itself.
at::Tensor cast(const at::Tensor& tensor) {
  const auto device = tensor.defined() ? tensor.device().type() : at::kCPU;
  if (!tensor.defined() || !at::autocast::is_autocast_enabled(device)) return tensor;
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), tensor, device);
}

bool alike(const at::Tensor& input, const at::Tensor& weight) {
  return weight.is_contiguous() && weight.scalar_type() == input.scalar_type() && weight.requires_grad();
}

at::Tensor by_own_node(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                       std::shared_ptr<DelayedWeights> delayed) {
  const auto node = make_node<LinearNode>();
  node->by_onednn = OneDnnProducts::take(input, input.numel() * weight.size(0));
  node->delayed = std::move(delayed);
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

}  // namespace

at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  if (auto delayed = DelayedWeights::current(); delayed && at::GradMode::is_enabled()) {
    const at::Tensor x = cast(input), w = cast(weight);
    if (alike(x, w) && x.dim() == 2 && x.is_contiguous()) return by_own_node(x, w, cast(bias), std::move(delayed));
  }
  if (!alike(input, weight) || !takes_own_node(input)) return at::linear(input, weight, bias);
  return by_own_node(input, weight, bias, nullptr);
}

}  // namespace dpbench
