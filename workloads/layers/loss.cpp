#include "workloads/layers/loss.h"

#include <string>
#include <tuple>

#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>

#include "workloads/layers/own_node.h"

namespace dpbench {
namespace {

constexpr int64_t ignore_index = -100;  // cross-entropy ignores samples with this label, as torch's does by default

struct CrossEntropyNode : torch::autograd::Node {
  torch::autograd::SavedVariable logarithms, labels, total_weight;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    enter_own_node(*this);
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor dy = std::move(gradients[0]);
    if (!dy.defined()) return torch::autograd::variable_list(1);
    const at::Tensor known = logarithms.unpack();
    const at::Tensor slope =
        at::nll_loss_backward(dy, known, labels.unpack(), {}, at::Reduction::Mean, ignore_index, total_weight.unpack());
    return {at::_log_softmax_backward_data(slope, known, 1, known.scalar_type())};
  }
  void release_variables() override {
    logarithms.reset_data();
    labels.reset_data();
    total_weight.reset_data();
  }
  std::string name() const override { return "CrossEntropyBackward"; }
};

at::Tensor widened(const at::Tensor& output) {
  return at::isReducedFloatingType(output.scalar_type()) ? output.to(at::kFloat) : output;
}

}  // namespace

at::Tensor mean_squared_error(const at::Tensor& output, const at::Tensor& target) {
  const at::Tensor wide = widened(output);
  const bool alike = target.scalar_type() == wide.scalar_type();
  return alike ? at::mse_loss(wide, target) : at::mse_loss(wide, target.to(wide.scalar_type()));
}

at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& labels) {
  const at::Tensor logits = widened(output);
  const bool by_number = labels.dim() == 1 && labels.scalar_type() == at::kLong;
  if (!by_number || !logits.requires_grad() || !takes_own_node(logits)) return at::cross_entropy_loss(logits, labels);
  at::Tensor logarithms, loss, total_weight;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    logarithms = at::_log_softmax(logits, 1, /*half_to_float=*/false);
    std::tie(loss, total_weight) = at::nll_loss_forward(logarithms, labels, {}, at::Reduction::Mean, ignore_index);
  }
  const auto node = make_node<CrossEntropyNode>();
  node->set_next_edges(torch::autograd::collect_next_edges(logits));
  node->logarithms = {logarithms, /*is_output=*/false};
  node->labels = {labels, /*is_output=*/false};
  node->total_weight = {total_weight, /*is_output=*/false};
  torch::autograd::set_history(loss, node);
  return loss;
}

at::Tensor summed_cross_entropy(const at::Tensor& output, const at::Tensor& labels) {
  return at::cross_entropy_loss(widened(output), labels, {}, at::Reduction::Sum, ignore_index);
}

}  // namespace dpbench
