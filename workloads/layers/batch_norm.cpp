#include "workloads/layers/batch_norm.h"

#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "workloads/layers/trained_norm.h"

namespace dpbench {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using HookPtr = c10::intrusive_ptr<BatchNorm::Hook>;

std::vector<int64_t> all_but_channels(const at::Tensor& x) {
  std::vector<int64_t> dims{0};
  for (int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

// Returns a vector of one element per channel, in the dtype of x and with a shape that broadcasts over x.
at::Tensor per_channel(const at::Tensor& vector, const at::Tensor& x) {
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = vector.numel();
  return vector.to(x.scalar_type()).view(shape);
}

// Returns one vector: the sum of each channel, the sum of squares of each channel, and the number of values per
// channel. The sums are computed from this rank's mean and variance, which is numerically more stable in float32 than
// direct sums.
at::Tensor moments(const at::Tensor& x) {
  const int64_t channels = x.size(1);
  const auto options = x.options().dtype(at::kDouble);
  if (x.numel() == 0) return at::zeros({2 * channels + 1}, options);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(channels);
  auto [var, mean] = at::var_mean(x, all_but_channels(x), /*correction=*/at::Scalar(0));
  var = var.to(at::kDouble);
  mean = mean.to(at::kDouble);
  return at::cat({mean * count, (var + mean * mean) * count, at::full({1}, count, options)});
}

// BatchNorm with statistics of the global batch. forward() returns the normalised samples, and the global batch's mean,
// biased variance and number of values in float64.
struct Synchronised : torch::autograd::Function<Synchronised> {
  static variable_list forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& bias,
                               double epsilon, const HookPtr& hook) {
    const int64_t channels = input.size(1);
    const auto x = input.to(bias.scalar_type());
    auto sums = moments(x);
    hook->reduce(sums);
    const auto count = sums.slice(0, 2 * channels);
    const auto mean = sums.slice(0, 0, channels) / count;
    const auto var = (sums.slice(0, channels, 2 * channels) / count - mean * mean).clamp_min_(0);
    const auto inverse = (var + epsilon).rsqrt();
    const auto normalised = (x - per_channel(mean, x)).mul_(per_channel(inverse, x));
    context->save_for_backward({normalised, inverse, count});
    context->saved_data["hook"] = c10::IValue::make_capsule(hook);
    context->saved_data["dtype"] = static_cast<int64_t>(input.scalar_type());
    context->mark_non_differentiable({mean, var, count});
    return {(normalised + per_channel(bias, x)).to(input.scalar_type()), mean, var, count};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &normalised = saved[0], &inverse = saved[1], &count = saved[2];
    const auto dy = gradients[0].to(normalised.scalar_type());
    const int64_t channels = dy.size(1);
    const auto dims = all_but_channels(dy);
    const auto bias_gradient = dy.sum(dims);
    auto sums = at::cat({bias_gradient.to(at::kDouble), (dy * normalised).sum(dims).to(at::kDouble)});
    c10::static_intrusive_pointer_cast<BatchNorm::Hook>(context->saved_data["hook"].toCapsule())->reduce(sums);
    const auto means = sums / count;
    const auto along = normalised * per_channel(means.slice(0, channels), dy);
    const auto dx = (dy - per_channel(means.slice(0, 0, channels), dy)).sub_(along).mul_(per_channel(inverse, dy));
    const auto dtype = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    return {dx.to(dtype), bias_gradient, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

BatchNorm::BatchNorm(int64_t channels, double epsilon, double momentum)
    : epsilon_(epsilon),
      momentum_(momentum),
      bias_(register_parameter("bias", at::zeros({channels}))),
      running_mean_(register_buffer("running_mean", at::zeros({channels}))),
      running_var_(register_buffer("running_var", at::ones({channels}))) {}

void BatchNorm::set_reduce(Reduce reduce) {
  hook_ = reduce ? c10::make_intrusive<Hook>(std::move(reduce)) : c10::intrusive_ptr<Hook>();
}

at::Tensor BatchNorm::forward(const at::Tensor& input) {
  if (hook_ && is_training()) return synchronised(input);
  if (is_training()) return trained_norm(input, bias_, {running_mean_, running_var_, momentum_}, epsilon_);
  return at::batch_norm(input, {}, bias_, running_mean_, running_var_, /*training=*/false, momentum_, epsilon_,
                        /*cudnn_enabled=*/true);
}

at::Tensor BatchNorm::synchronised(const at::Tensor& input) {
  const auto outputs = Synchronised::apply(input, bias_, epsilon_, hook_);
  at::NoGradGuard no_grad;
  const auto &mean = outputs[1], &var = outputs[2], &count = outputs[3];
  running_mean_.lerp_(mean.to(running_mean_.scalar_type()), momentum_);
  running_var_.lerp_((var * count / (count - 1)).to(running_var_.scalar_type()), momentum_);
  return outputs[0];
}

}  // namespace dpbench
