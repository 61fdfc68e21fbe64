// Tests the BatchNorm of the workloads. It is bit-identical to torch's although its sums are vectorized. Ranks that
// share a batch and synchronise their statistics get the results of the whole batch.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/nn/modules/batchnorm.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "strategies/api/named_tensors.h"
#include "workloads/layers/batch_norm.h"
#include "workloads/layers/channel_moments.h"
#include "workloads/layers/linear.h"
#include "workloads/layers/loss.h"
#include "workloads/layers/trained_norm.h"

namespace dpbench {
namespace {

// Returns values for which the order of addition changes the sum of a channel: pairs of large values that cancel, and
// small values that a large partial sum absorbs.
at::Tensor order_sensitive(at::IntArrayRef sizes) {
  const int64_t channels = sizes[1], values = c10::multiply_integers(sizes) / channels, pairs = values / 3;
  const auto large = at::ldexp(1 + at::rand({channels, pairs}), at::randint(20, 50, {channels, pairs}, at::kFloat));
  const auto all = at::cat({large, -large, at::randn({channels, values - 2 * pairs})}, 1);
  const auto mixed = all.gather(1, at::rand({channels, values}).argsort(int64_t{1}, /*descending=*/false));
  auto shape = sizes.vec();
  std::swap(shape[0], shape[1]);
  return mixed.view(shape).transpose(0, 1).contiguous();
}

struct Moments {
  std::vector<float> means, square_sums;
  bool operator==(const Moments&) const = default;
};

// Returns each channel's mean and sum of squared deviations, computed by adding one value after the other, as torch
// does.
Moments sequential_moments(const Images& images) {
  Moments found;
  const auto sum_of = [&](int64_t channel, const auto& term) {
    double sum = 0;
    for (int64_t row = 0; row < images.rows; ++row)
      for (int64_t place = 0; place < images.places; ++place)
        sum += static_cast<double>(term(images.values[(row * images.channels + channel) * images.places + place]));
    return sum;
  };
  for (int64_t channel = 0; channel < images.channels; ++channel) {
    const auto mean = static_cast<float>(sum_of(channel, [](float x) { return x; }) /
                                         static_cast<double>(images.rows * images.places));
    found.means.push_back(mean);
    found.square_sums.push_back(
        static_cast<float>(sum_of(channel, [mean](float x) { return (x - mean) * (x - mean); })));
  }
  return found;
}

TEST(ChannelMoments, HaveTheBitsOfSequentialSumsForEveryImplementationAndSplitOfChannels) {
  at::manual_seed(1);
  const std::array<int64_t, 3> shapes[] = {{1, 1, 1},   {3, 5, 7},    {64, 12, 784}, {2, 9, 300},
                                           {4, 3, 256}, {1, 17, 257}, {50, 4, 1}};
  for (const auto& [rows, channels, places] : shapes) {
    const auto values = order_sensitive({rows, channels, places});
    const Images images{values.const_data_ptr<float>(), rows, channels, places};
    const Moments expected = sequential_moments(images);
    for (const ChannelMoments compute : channel_moments())
      for (const int64_t share : {int64_t{1}, int64_t{3}, channels}) {
        Moments found{std::vector<float>(static_cast<size_t>(channels)),
                      std::vector<float>(static_cast<size_t>(channels))};
        for (int64_t begin = 0; begin < channels; begin += share)
          compute(images, begin, std::min(begin + share, channels), found.means.data(), found.square_sums.data());
        EXPECT_EQ(found, expected) << rows << ' ' << channels << ' ' << places << ", shares of " << share;
      }
  }
}

constexpr double epsilon = 1e-3, momentum = 0.01;

struct NormSteps {
  at::Tensor output, input, bias, mean, var;
};
using Norm = at::Tensor (*)(const at::Tensor& input, const at::Tensor& bias, const RunningStatistics& running,
                            double epsilon);

at::Tensor torch_norm(const at::Tensor& input, const at::Tensor& bias, const RunningStatistics& running,
                      double epsilon) {
  return at::batch_norm(input, {}, bias, running.mean, running.var, /*training=*/true, running.momentum, epsilon,
                        /*cudnn_enabled=*/true);
}

NormSteps run_steps(Norm norm, const std::vector<at::Tensor>& inputs, const at::Tensor& slope) {
  NormSteps all;
  const auto like = at::TensorOptions(inputs[0].scalar_type());
  all.bias = at::full({inputs[0].size(1)}, 0.25, like).set_requires_grad(true);
  all.mean = at::zeros({inputs[0].size(1)}, like), all.var = at::ones({inputs[0].size(1)}, like);
  for (const at::Tensor& input : inputs) {
    all.input = input.detach().clone().set_requires_grad(true);
    all.output = norm(all.input, all.bias, {all.mean, all.var, momentum}, epsilon);
    all.output.backward(slope);
  }
  return all;
}

void expect_same(const NormSteps& a, const NormSteps& b) {
  EXPECT_TRUE(same_bits(a.output, b.output));
  EXPECT_TRUE(same_bits(a.input.grad(), b.input.grad()));
  EXPECT_TRUE(same_bits(a.bias.grad(), b.bias.grad()));
  EXPECT_TRUE(same_bits(a.mean, b.mean));
  EXPECT_TRUE(same_bits(a.var, b.var));
}

bool is_trained_norm(const at::Tensor& output) { return output.grad_fn()->name() == "TrainedNormBackward"; }

TEST(BatchNormInTraining, IsBitIdenticalToTorch) {
  at::manual_seed(2);
  const std::vector<int64_t> shapes[] = {{8, 3, 5}, {4, 12, 28, 28}, {64, 24, 12, 12}, {2, 5, 3, 3, 3}, {1, 1, 1, 2}};
  for (const auto& sizes : shapes) {
    SCOPED_TRACE(testing::PrintToString(sizes));
    const std::vector<at::Tensor> inputs{order_sensitive(sizes), order_sensitive(sizes), order_sensitive(sizes)};
    const auto slope = at::randn(sizes);
    const NormSteps ours = run_steps(trained_norm, inputs, slope);
    EXPECT_TRUE(is_trained_norm(ours.output));
    expect_same(ours, run_steps(torch_norm, inputs, slope));
  }
}

TEST(BatchNormInTraining, IsBitIdenticalToTorchForAConstantChannel) {
  for (const double eps : {0.0, epsilon}) {
    const auto once = [&](Norm norm) {
      const auto input = at::cat({at::full({2, 1, 3}, 5.0), order_sensitive({2, 1, 3})}, 1),
                 bias = at::ones({2}).set_requires_grad(true);
      return norm(input, bias, {at::zeros({2}), at::ones({2}), momentum}, eps);
    };
    at::manual_seed(3);
    const auto ours = once(trained_norm);
    at::manual_seed(3);
    EXPECT_TRUE(is_trained_norm(ours));
    EXPECT_TRUE(same_bits(ours, once(torch_norm)));
  }
}

TEST(BatchNormInTraining, IsBitIdenticalToTorchWith1And2ThreadsAndFallsBackToTorchWith5) {
  const std::vector<at::Tensor> inputs{order_sensitive({16, 13, 9, 9})};
  const auto slope = at::randn({16, 13, 9, 9});
  const int threads = at::get_num_threads();
  const NormSteps expected = run_steps(torch_norm, inputs, slope);
  for (const int count : {1, 2, 5}) {
    at::set_num_threads(count);
    const NormSteps ours = run_steps(trained_norm, inputs, slope);
    EXPECT_EQ(is_trained_norm(ours.output), count <= 2) << count;
    expect_same(ours, expected);
  }
  at::set_num_threads(threads);
}

TEST(BatchNormInTraining, FallsBackToTorchForUnsupportedInputs) {
  const std::vector<int64_t> sizes{4, 6, 5, 5};
  const auto slope = at::randn(sizes);
  for (const auto& input :
       {order_sensitive(sizes).contiguous(at::MemoryFormat::ChannelsLast),
        order_sensitive({6, 4, 5, 5}).transpose(0, 1), order_sensitive({6, 4}), order_sensitive({6, 4, 1, 1})}) {
    const auto down = at::randn(input.sizes());
    const NormSteps ours = run_steps(trained_norm, {input}, down);
    EXPECT_FALSE(is_trained_norm(ours.output));
    expect_same(ours, run_steps(torch_norm, {input}, down));
  }
  const NormSteps twice = run_steps(trained_norm, {order_sensitive(sizes).to(at::kDouble)}, slope.to(at::kDouble));
  EXPECT_FALSE(is_trained_norm(twice.output));
  const auto frozen = at::zeros({6}), mean = at::zeros({6}), var = at::ones({6});
  EXPECT_FALSE(is_trained_norm(
      trained_norm(order_sensitive(sizes).set_requires_grad(true), frozen, {mean, var, momentum}, epsilon)));
  const auto bias = at::zeros({6}).set_requires_grad(true);
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(trained_norm(order_sensitive(sizes), bias, {mean, var, momentum}, epsilon).requires_grad());
  }
  const auto short_bias = at::zeros({5}).set_requires_grad(true);
  EXPECT_THROW(trained_norm(order_sensitive(sizes), short_bias, {mean, var, momentum}, epsilon), c10::Error);
  EXPECT_FALSE(is_trained_norm(trained_norm(at::zeros({0, 6, 2}), bias, {mean, var, momentum}, epsilon)));
  EXPECT_THROW(trained_norm(at::zeros({6}), bias, {mean, var, momentum}, epsilon), c10::Error);
}

TEST(BatchNormInTraining, ReleasesSavedTensorsAfterBackward) {
  const auto bias = at::zeros({3}).set_requires_grad(true), mean = at::zeros({3}), var = at::ones({3}),
             input = order_sensitive({4, 3, 2});
  const auto output = trained_norm(input, bias, {mean, var, momentum}, epsilon), slope = at::ones({4, 3, 2});
  EXPECT_GT(input.use_count(), 1u);
  output.backward(slope);
  EXPECT_EQ(input.use_count(), 1u);
  EXPECT_THROW(output.backward(slope), c10::Error);
}

TEST(BatchNormInTraining, RefusesDoubleBackwardLikeLinearAndCrossEntropy) {
  const auto weight = at::ones({2, 3}).set_requires_grad(true), bias = at::zeros({2}).set_requires_grad(true),
             mean = at::zeros({2}), var = at::ones({2});
  const auto rows = at::ones({4, 3}).set_requires_grad(true), images = at::randn({4, 2, 3}).set_requires_grad(true);
  for (const auto& loss : {trained_norm(images, bias, {mean, var, momentum}, epsilon).sum(),
                           linear(rows, weight, bias).sum(), cross_entropy(rows * 2, at::zeros({4}, at::kLong))})
    EXPECT_THROW(loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true), c10::Error);
}

torch::nn::BatchNorm2d reference_norm(int64_t channels) {
  torch::nn::BatchNorm2d norm(torch::nn::BatchNorm2dOptions(channels).eps(epsilon).momentum(momentum));
  norm->weight.set_requires_grad(false);
  return norm;
}

TEST(BatchNorm, IsBitIdenticalToTorchWithAWeightOfOne) {
  BatchNorm ours(4, epsilon, momentum);
  auto torchs = reference_norm(4);
  for (int step = 0; step < 3; ++step) {
    auto x = (at::randn({6, 4, 5, 5}) * 3 + 2).set_requires_grad(true);
    auto y = x.detach().clone().set_requires_grad(true);
    const auto a = ours.forward(x), b = torchs->forward(y), slope = at::randn_like(a);
    EXPECT_TRUE(same_bits(a, b));
    a.backward(slope);
    b.backward(slope);
    EXPECT_TRUE(same_bits(x.grad(), y.grad()));
  }
  EXPECT_TRUE(same_bits(ours.named_parameters()["bias"].grad(), torchs->bias.grad()));
  EXPECT_TRUE(same_bits(ours.named_buffers()["running_mean"], torchs->running_mean));
  EXPECT_TRUE(same_bits(ours.named_buffers()["running_var"], torchs->running_var));
  ours.eval();
  torchs->eval();
  const auto x = at::randn({3, 4, 5, 5});
  EXPECT_TRUE(same_bits(ours.forward(x), torchs->forward(x)));
}

TEST(BatchNorm, HasABiasAndRunningStatisticsButNoWeight) {
  BatchNorm norm(4, epsilon, momentum);
  EXPECT_EQ(norm.named_parameters().keys(), (std::vector<std::string>{"bias"}));
  EXPECT_EQ(norm.named_buffers().keys(), (std::vector<std::string>{"running_mean", "running_var"}));
}

TEST(BatchNorm, RunningStatisticsUseTheMomentumAndTheUnbiasedVariance) {
  BatchNorm norm(1, epsilon, momentum);
  norm.forward(at::tensor({1.0f, 3.0f}).view({2, 1}));
  EXPECT_FLOAT_EQ(norm.named_buffers()["running_mean"].item<float>(), 0.02f);
  EXPECT_FLOAT_EQ(norm.named_buffers()["running_var"].item<float>(), 0.99f + 0.01f * 2);
}

// An in-place allreduce (sum) between threads. Each thread stands for a rank.
class ThreadAllreduce {
 public:
  explicit ThreadAllreduce(int64_t world) : all_here_(world), all_done_(world, Clear{this}) {}
  void operator()(at::Tensor& tensor) {
    {
      const std::lock_guard lock(mutex_);
      total_ = total_.defined() ? total_ + tensor : tensor.clone();
    }
    all_here_.arrive_and_wait();
    tensor.copy_(total_);
    all_done_.arrive_and_wait();
  }
  int calls = 0;

 private:
  struct Clear {
    ThreadAllreduce* sum;
    void operator()() noexcept {
      sum->total_.reset();
      ++sum->calls;
    }
  };
  std::mutex mutex_;
  std::barrier<> all_here_;
  std::barrier<Clear> all_done_;
  at::Tensor total_;
};

struct NormResult {
  at::Tensor output, input_gradient, bias_gradient, mean, var;
};

NormResult run_norm(const at::Tensor& rows, const at::Tensor& slope, BatchNorm::Reduce reduce) {
  BatchNorm norm(rows.size(1), epsilon, momentum);
  norm.to(rows.scalar_type());
  norm.set_reduce(std::move(reduce));
  auto x = rows.clone().set_requires_grad(true);
  const auto y = norm.forward(x);
  y.backward(slope);
  return {y.detach(), x.grad(), norm.named_parameters()["bias"].grad(), norm.named_buffers()["running_mean"],
          norm.named_buffers()["running_var"]};
}

void expect_whole_batch(at::ScalarType dtype, const std::vector<int64_t>& cuts, double tolerance) {
  const int64_t rows = 12, world = static_cast<int64_t>(cuts.size()) + 1;
  const auto options = at::TensorOptions(dtype);
  const auto x = at::randn({rows, 3, 4, 4}, options) + 5, slope = at::randn({rows, 3, 4, 4}, options);
  const auto whole = run_norm(x, slope, {});
  const auto xs = x.tensor_split(cuts), slopes = slope.tensor_split(cuts);
  ThreadAllreduce sum(world);
  std::vector<NormResult> parts(world);
  std::vector<std::thread> ranks;
  for (int64_t r = 0; r < world; ++r)
    ranks.emplace_back([&, r] { parts[r] = run_norm(xs[r], slopes[r], std::ref(sum)); });
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(sum.calls, 2);  // one allreduce in the forward pass and one in the backward pass
  std::vector<at::Tensor> outputs, gradients;
  auto bias = at::zeros_like(whole.bias_gradient);
  for (const auto& part : parts) {
    outputs.push_back(part.output);
    gradients.push_back(part.input_gradient);
    bias += part.bias_gradient;
    EXPECT_TRUE(at::allclose(part.mean, whole.mean, tolerance, tolerance));
    EXPECT_TRUE(at::allclose(part.var, whole.var, tolerance, tolerance));
  }
  EXPECT_TRUE(at::allclose(at::cat(outputs), whole.output, tolerance, tolerance));
  EXPECT_TRUE(at::allclose(at::cat(gradients), whole.input_gradient, tolerance, tolerance));
  EXPECT_TRUE(at::allclose(bias, whole.bias_gradient, tolerance, tolerance));
}

TEST(SynchronisedBatchNorm, OverRanksEqualsBatchNormOverTheWholeBatch) { expect_whole_batch(at::kDouble, {6}, 1e-12); }
TEST(SynchronisedBatchNorm, EqualsTheWholeBatchIfRanksHaveDifferentNumbersOfSamples) {
  expect_whole_batch(at::kDouble, {7, 8}, 1e-12);
}
TEST(SynchronisedBatchNorm, EqualsTheWholeBatchIfARankHasNoSamples) { expect_whole_batch(at::kDouble, {5, 5}, 1e-12); }
TEST(SynchronisedBatchNorm, OverRanksEqualsBatchNormOverTheWholeBatchInFloat32) {
  expect_whole_batch(at::kFloat, {4, 8}, 2e-6);
}

TEST(SynchronisedBatchNorm, CallsNoCollectiveInEvaluation) {
  BatchNorm norm(2, epsilon, momentum);
  norm.set_reduce([](at::Tensor&) { FAIL() << "evaluation must not call a collective"; });
  norm.eval();
  norm.forward(at::randn({2, 2, 3, 3}));
}

}  // namespace
}  // namespace dpbench
