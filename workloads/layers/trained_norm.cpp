#include "workloads/layers/trained_norm.h"

#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones_like.h>

#include "workloads/layers/channel_moments.h"
#include "workloads/layers/own_node.h"

namespace dpbench {
namespace {

struct TrainedNormNode : torch::autograd::Node {
  torch::autograd::SavedVariable input, mean, inverse;
  double epsilon = 0;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    enter_own_node(*this);
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor dy = std::move(gradients[0]);
    torch::autograd::variable_list results(2);
    if (!dy.defined()) return results;
    const std::array<bool, 3> needed{task_should_compute_output(0), false, task_should_compute_output(1)};
    at::Tensor weight_gradient;
    std::tie(results[0], weight_gradient, results[1]) =
        at::native_batch_norm_backward(dy, input.unpack(), {}, {}, {}, mean.unpack(), inverse.unpack(),
                                       /*train=*/true, epsilon, needed);
    return results;
  }
  void release_variables() override {
    input.reset_data();
    mean.reset_data();
    inverse.reset_data();
  }
  std::string name() const override { return "TrainedNormBackward"; }
};

// With more threads than this, torch's BatchNorm is faster, because it splits the channels over threads. The loop of
// dpbench runs on one thread.
constexpr int max_threads = 2;

bool is_vector(const at::Tensor& tensor, int64_t channels) {
  return tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == at::kFloat && tensor.numel() == channels;
}

struct Moments {
  at::Tensor mean, square_sum;
};

Moments moments_of(const at::Tensor& input, const at::Tensor& like) {
  const Moments found{at::empty_like(like), at::empty_like(like)};
  const int64_t rows = input.size(0), channels = input.size(1);
  const Images images{input.const_data_ptr<float>(), rows, channels, input.numel() / rows / channels};
  channel_moments()[0](images, 0, channels, found.mean.mutable_data_ptr<float>(),
                       found.square_sum.mutable_data_ptr<float>());
  return found;
}

// Updates the running statistics and returns 1 / standard deviation of each channel. Every intermediate value has the
// same dtype as in torch, so that the bits are the same.
at::Tensor update(const RunningStatistics& running, const Moments& moments, int64_t values, double epsilon) {
  at::Tensor inverse = at::empty_like(running.mean);
  const float *means = moments.mean.const_data_ptr<float>(), *square_sums = moments.square_sum.const_data_ptr<float>();
  float *known_means = running.mean.mutable_data_ptr<float>(), *known_vars = running.var.mutable_data_ptr<float>();
  const auto share = static_cast<float>(running.momentum);
  for (int64_t c = 0; c < inverse.numel(); ++c) {
    const double var = square_sums[c] / static_cast<float>(values),
                 unbiased = square_sums[c] / static_cast<float>(values - 1);
    inverse.mutable_data_ptr<float>()[c] =
        var == 0 && epsilon == 0 ? 0 : static_cast<float>(1 / std::sqrt(var + epsilon));
    known_means[c] = share * means[c] + (1 - share) * known_means[c];
    known_vars[c] = static_cast<float>(share * unbiased + (1 - share) * known_vars[c]);
  }
  return inverse;
}

}  // namespace

at::Tensor trained_norm(const at::Tensor& input, const at::Tensor& bias, const RunningStatistics& running,
                        double epsilon) {
  const int64_t channels = input.dim() < 2 ? 0 : input.size(1);
  // True for images of more than one pixel; torch adds images of 1x1 in another order, so they are left to torch.
  const bool images = input.dim() > 2 && input.numel() > input.size(0) * channels;
  const bool supported = images && plain_on_cpu(input) && input.scalar_type() == at::kFloat && bias.requires_grad() &&
                         is_vector(bias, channels) && is_vector(running.mean, channels) &&
                         is_vector(running.var, channels) && at::get_num_threads() <= max_threads;
  if (!supported) {
    // On a GPU, torch's BatchNorm gets a weight of ones. Without a weight, its CUDA kernel fails in the backward pass,
    // where it creates the bias' gradient with the options of the weight.
    const at::Tensor weight = input.is_cuda() ? at::ones_like(bias) : at::Tensor();
    return at::batch_norm(input, weight, bias, running.mean, running.var, /*training=*/true, running.momentum, epsilon,
                          /*cudnn_enabled=*/true);
  }
  at::Tensor output, mean, inverse;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Moments moments = moments_of(input, running.mean);
    mean = moments.mean;
    inverse = update(running, moments, input.numel() / channels, epsilon);
    // Uses torch's evaluation kernel, which is given a variance of 1, and 1 / standard deviation as the weight. The
    // result has the same bits as that of torch's training kernel.
    output = std::get<0>(at::native_batch_norm(input, inverse, bias, mean, at::ones_like(mean), /*training=*/false,
                                               /*momentum=*/0, /*eps=*/0));
  }
  const auto node = make_node<TrainedNormNode>();
  node->set_next_edges(torch::autograd::collect_next_edges(input, bias));
  node->input = {input, /*is_output=*/false};
  node->mean = {mean, /*is_output=*/false};
  node->inverse = {inverse, /*is_output=*/false};
  node->epsilon = epsilon;
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace dpbench
