// Activation checkpointing: a layer that keeps its input alone and computes the rest again in the backward pass.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace dpbench::probes {

struct Recomputed : torch::autograd::Function<Recomputed> {
  using Layer = at::Tensor (*)(const at::Tensor& input, const at::Tensor& weight);

  static at::Tensor forward(torch::autograd::AutogradContext* context, Layer layer, const at::Tensor& input,
                            const at::Tensor& weight) {
    context->save_for_backward({input, weight});
    context->saved_data["layer"] = reinterpret_cast<int64_t>(layer);
    return layer(input, weight);
  }

  // In the weight's type, whatever autocast made of the input: the gradient goes back in the types it came in.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto layer = reinterpret_cast<Layer>(context->saved_data["layer"].toInt());
    const auto saved = context->get_saved_variables();
    const at::AutoGradMode with_gradients(true);
    const at::Tensor weight = saved[1].detach().requires_grad_();
    const at::Tensor input = saved[0].detach().to(weight.scalar_type()).requires_grad_();
    const at::Tensor output = layer(input, weight);
    const auto own = torch::autograd::grad({output}, {input, weight}, {gradients[0].to(output.scalar_type())});
    return {at::Tensor(), own[0].to(saved[0].scalar_type()), own[1]};
  }
};

}  // namespace dpbench::probes
