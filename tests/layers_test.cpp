#include <gtest/gtest.h>
#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>

#include <barrier>
#include <bit>
#include <thread>

#include "workloads/hash.h"
#include "workloads/layers/batch_norm.h"
#include "workloads/layers/conv.h"
#include "workloads/layers/dropout.h"
#include "workloads/layers/linear.h"
#include "workloads/loss.h"

namespace dpbench {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

TEST(Mix, MovesHalfOfTheBitsForEachBitOfItsInput) {
  for (int in = 0; in < 32; ++in) {
    int64_t flipped = 0;
    for (uint32_t i = 0; i < 4096; ++i) flipped += std::popcount(mix32(i) ^ mix32(i ^ (1u << in)));
    EXPECT_NEAR(static_cast<double>(flipped) / 4096, 16, 0.3) << "bit " << in;
  }
}

// Python: torch.manual_seed(1); m = torch.nn.Linear(5, 2); m.weight.flatten(), m.bias
TEST(Linear, StartsWithPythonsBits) {
  const std::array<float, 10> weight{0x1.d7ed1ap-3f, -0x1.944164p-3f, -0x1.631ce8p-4f, 0x1.ade456p-3f, -0x1.af20cp-2f,
                                     0x1.12a378p-2f, -0x1.78d84cp-4f, 0x1.d1f486p-3f,  0x1.fd4c8ap-5f, -0x1.c0954cp-5f};
  const std::array<float, 2> bias{0x1.fc10eap-4f, 0x1.697614p-6f};
  Linear layer(5, 2, Init::torch, own_generator(1));
  const auto parameters = layer.named_parameters();
  for (size_t i = 0; i < weight.size(); ++i)
    EXPECT_EQ(parameters["weight"].flatten()[static_cast<int64_t>(i)].item<float>(), weight[i]) << i;
  for (size_t i = 0; i < bias.size(); ++i)
    EXPECT_EQ(parameters["bias"][static_cast<int64_t>(i)].item<float>(), bias[i]);
}

// Output, loss and all gradients of two layers with a ReLU between them, by these functions for a layer and the loss.
template <class Layer, class Loss>
std::vector<at::Tensor> both_passes(Layer layer, Loss loss, std::vector<at::Tensor> p, const at::Tensor& x, const at::Tensor& labels) {
  for (at::Tensor& tensor : p) tensor = tensor.clone().set_requires_grad(true);
  const at::Tensor output = layer(layer(x, p[0], p[1]).relu_(), p[2], p[3]);
  const at::Tensor mean = loss(output, labels);
  mean.backward();
  std::vector<at::Tensor> found{output.detach(), mean.detach()};
  for (const at::Tensor& tensor : p) found.push_back(tensor.grad());
  return found;
}

TEST(Linear, AndCrossEntropyHaveTheBitsOfTorchs) {
  const auto torchs = [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) { return at::linear(x, w, b); };
  const auto torchs_loss = [](const at::Tensor& x, const at::Tensor& labels) { return at::cross_entropy_loss(x, labels); };
  const auto generator = own_generator(5);
  for (const auto type : {at::kFloat, at::kDouble})
    for (const int64_t rows : {1, 7, 64, 256}) {
      std::vector<at::Tensor> p;
      for (const auto& shape : std::vector<std::vector<int64_t>>{{33, 50}, {33}, {10, 33}, {10}}) p.push_back(at::randn(shape, generator).to(type));
      at::Tensor x = at::randn({rows, 50}, generator).to(type);
      const at::Tensor labels = at::randint(0, 10, {rows}, generator, at::kLong);
      for (const bool slope : {false, true}) {
        x = x.detach().set_requires_grad(slope);
        const auto expected = both_passes(torchs, torchs_loss, p, x, labels);
        const at::Tensor input_gradient = x.grad();
        x.mutable_grad().reset();
        const auto found = both_passes(linear, cross_entropy, p, x, labels);
        for (size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(same_bits(found[i], expected[i]) && found[i].strides() == expected[i].strides()) << i << " of " << rows << " rows";
        EXPECT_EQ(x.grad().defined(), slope);
        EXPECT_TRUE(!slope || same_bits(x.grad(), input_gradient));
      }
    }
}

TEST(Linear, RefusesASecondBackwardPassAndAnInputWrittenSince) {
  const at::Tensor w = at::ones({2, 3}).set_requires_grad(true), b = at::ones({2}).set_requires_grad(true), labels = at::ones({4}, at::kLong);
  at::Tensor x = at::ones({4, 3});
  const at::Tensor loss = cross_entropy(linear(x, w, b), labels);
  loss.backward();
  EXPECT_THROW(loss.backward(), c10::Error);
  const at::Tensor other = cross_entropy(linear(x, w, b), labels);
  x.add_(1);
  EXPECT_THROW(other.backward(), c10::Error);
}

TEST(Conv, StartsWithinGlorotsBoundAndWithoutBias) {
  Conv layer({.inputs = 12, .outputs = 24, .kernel = 6, .stride = 2, .bias = true}, Init::glorot, own_generator(3));
  const double bound = std::sqrt(6.0 / (36 * (12 + 24)));
  const auto parameters = layer.named_parameters();
  EXPECT_LE(parameters["weight"].abs().max().item<double>(), bound);
  EXPECT_GT(parameters["weight"].abs().max().item<double>(), 0.99 * bound);
  EXPECT_NEAR(parameters["weight"].var().item<double>(), bound * bound / 3, 0.03 * bound * bound / 3);
  EXPECT_EQ(parameters["bias"].abs().max().item<double>(), 0);
}

// --- BatchNorm

constexpr double epsilon = 1e-3, momentum = 0.01;

torch::nn::BatchNorm2d reference_norm(int64_t channels) {
  torch::nn::BatchNorm2d norm(torch::nn::BatchNorm2dOptions(channels).eps(epsilon).momentum(momentum));
  norm->weight.set_requires_grad(false);
  return norm;
}

TEST(BatchNorm, IsTorchsWithItsWeightFixedToOne) {
  BatchNorm mine(4, epsilon, momentum);
  auto theirs = reference_norm(4);
  for (int step = 0; step < 3; ++step) {
    auto x = (at::randn({6, 4, 5, 5}) * 3 + 2).set_requires_grad(true);
    auto y = x.detach().clone().set_requires_grad(true);
    const auto a = mine.forward(x), b = theirs->forward(y), slope = at::randn_like(a);
    EXPECT_TRUE(same_bits(a, b));
    a.backward(slope);
    b.backward(slope);
    EXPECT_TRUE(same_bits(x.grad(), y.grad()));
  }
  EXPECT_TRUE(same_bits(mine.named_parameters()["bias"].grad(), theirs->bias.grad()));
  EXPECT_TRUE(same_bits(mine.named_buffers()["running_mean"], theirs->running_mean));
  EXPECT_TRUE(same_bits(mine.named_buffers()["running_var"], theirs->running_var));
  mine.eval();
  theirs->eval();
  const auto x = at::randn({3, 4, 5, 5});
  EXPECT_TRUE(same_bits(mine.forward(x), theirs->forward(x)));
}

TEST(BatchNorm, HasABiasTwoStatisticsAndNoWeight) {
  BatchNorm norm(4, epsilon, momentum);
  EXPECT_EQ(norm.named_parameters().keys(), (std::vector<std::string>{"bias"}));
  EXPECT_EQ(norm.named_buffers().keys(), (std::vector<std::string>{"running_mean", "running_var"}));
}

TEST(BatchNorm, KeepsTheUnbiasedVarianceOfWhichItTakesOneHundredth) {
  BatchNorm norm(1, epsilon, momentum);
  norm.forward(at::tensor({1.0f, 3.0f}).view({2, 1}));
  EXPECT_FLOAT_EQ(norm.named_buffers()["running_mean"].item<float>(), 0.02f);
  EXPECT_FLOAT_EQ(norm.named_buffers()["running_var"].item<float>(), 0.99f + 0.01f * 2);
}

// A meeting of threads that all add up what each brings.
class Sum {
 public:
  explicit Sum(int64_t world) : all_here_(world), all_done_(world, Clear{this}) {}
  void operator()(at::Tensor& mine) {
    {
      const std::lock_guard lock(mutex_);
      total_ = total_.defined() ? total_ + mine : mine.clone();
    }
    all_here_.arrive_and_wait();
    mine.copy_(total_);
    all_done_.arrive_and_wait();
  }
  int calls = 0;

 private:
  struct Clear {
    Sum* sum;
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
  Sum sum(world);
  std::vector<NormResult> parts(world);
  std::vector<std::thread> ranks;
  for (int64_t r = 0; r < world; ++r)
    ranks.emplace_back([&, r] { parts[r] = run_norm(xs[r], slopes[r], std::ref(sum)); });
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(sum.calls, 2);  // one forward, one backward
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

TEST(SynchronisedBatchNorm, IsThatOfTheWholeBatch) { expect_whole_batch(at::kDouble, {6}, 1e-12); }
TEST(SynchronisedBatchNorm, IsThatOfTheWholeBatchForUnevenShares) { expect_whole_batch(at::kDouble, {7, 8}, 1e-12); }
TEST(SynchronisedBatchNorm, BearsAShareWithoutRows) { expect_whole_batch(at::kDouble, {5, 5}, 1e-12); }
TEST(SynchronisedBatchNorm, IsThatOfTheWholeBatchInFloat) { expect_whole_batch(at::kFloat, {4, 8}, 2e-6); }

TEST(SynchronisedBatchNorm, NeedsNoOneElseInEvaluation) {
  BatchNorm norm(2, epsilon, momentum);
  norm.set_reduce([](at::Tensor&) { FAIL() << "a collective during evaluation"; });
  norm.eval();
  norm.forward(at::randn({2, 2, 3, 3}));
}

// --- Dropout

Context at_step(int64_t step, const at::Tensor& ids, uint64_t seed = 7) { return {seed, step, ids}; }

TEST(Dropout, DropsTheSameFeaturesHoweverRowsAreSharedOut) {
  const Dropout dropout(0.5, 0);
  const auto ids = at::randperm(60'000).slice(0, 0, 64);
  const auto whole = dropout.forward(at::ones({64, 256}), at_step(3, ids));
  for (int64_t world : {2, 3, 5})
    for (int64_t rank = 0; rank < world; ++rank) {
      const auto strided = ids.slice(0, rank, 64, world);
      const auto part = dropout.forward(at::ones({strided.numel(), 256}), at_step(3, strided));
      EXPECT_TRUE(same_bits(part, whole.slice(0, rank, 64, world)));
    }
}

TEST(Dropout, MakesTheSameMaskByItsLoopAndByTensors) {
  const auto ids = at::tensor({int64_t{0}, int64_t{1}, int64_t{59'999}, int64_t{1} << 31, (int64_t{1} << 40) + 17});
  for (const double rate : {0.1, 0.5, 0.9}) {
    const Dropout dropout(rate, 2);
    const auto context = at_step(123'456'789'012, ids, 0xfedcba9876543210u);
    EXPECT_TRUE(same_bits(dropout.mask_by_loop(context, 300),
                          dropout.mask_by_tensors(context, 300, at::TensorOptions(at::kFloat))));
  }
}

TEST(Dropout, MakesTheSameMaskFromAStepOnTheDevice) {
  const auto ids = at::tensor({int64_t{0}, int64_t{59'999}, int64_t{1} << 31, (int64_t{1} << 40) + 17});
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, ~uint64_t{0}, uint64_t{0x8000000000000001}})
    for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{123'456'789'012}})
      for (const uint64_t layer : {uint64_t{0}, uint64_t{3}}) {
        const Dropout dropout(0.5, layer);
        Context recorded = at_step(-1, ids, seed);
        recorded.step_on_device = at::full({1}, step, at::kLong);
        EXPECT_TRUE(same_bits(dropout.mask_by_loop(at_step(step, ids, seed), 300),
                              dropout.mask(recorded, 300, at::TensorOptions(at::kFloat))))
            << seed << ' ' << step << ' ' << layer;
      }
}

TEST(Dropout, ChangesWithSeedStepLayerSampleAndFeature) {
  const auto ids = at::arange(64);
  const auto mask = Dropout(0.5, 0).mask_by_loop(at_step(1, ids), 256);
  const auto agreement = [&](const at::Tensor& other) { return mask.eq(other).to(at::kDouble).mean().item<double>(); };
  EXPECT_NEAR(agreement(Dropout(0.5, 0).mask_by_loop(at_step(2, ids), 256)), 0.5, 0.02);
  EXPECT_NEAR(agreement(Dropout(0.5, 1).mask_by_loop(at_step(1, ids), 256)), 0.5, 0.02);
  EXPECT_NEAR(agreement(Dropout(0.5, 0).mask_by_loop(at_step(1, ids, 8), 256)), 0.5, 0.02);
  EXPECT_NEAR(agreement(Dropout(0.5, 0).mask_by_loop(at_step(1, ids + 64), 256)), 0.5, 0.02);
  EXPECT_NEAR(agreement(mask.roll(1, 1)), 0.5, 0.02);
}

TEST(Dropout, DropsItsShareAndKeepsTheMean) {
  for (const double rate : {0.2, 0.5, 0.75}) {
    const auto mask = Dropout(rate, 0).mask_by_loop(at_step(1, at::arange(1000)), 256);
    EXPECT_NEAR(mask.eq(0).to(at::kDouble).mean().item<double>(), rate, 0.005);
    EXPECT_FLOAT_EQ(mask.max().item<float>(), static_cast<float>(1 / (1 - rate)));
  }
}

TEST(Dropout, LeavesItsInputAloneInEvaluation) {
  Dropout dropout(0.5, 0);
  dropout.eval();
  const auto x = at::randn({4, 8});
  EXPECT_TRUE(dropout.forward(x, {}).is_same(x));
}

TEST(Dropout, RefusesRowsWithoutIds) {
  const Dropout dropout(0.5, 0);
  EXPECT_THROW(dropout.forward(at::ones({4, 8}), {}), std::runtime_error);
  EXPECT_THROW(dropout.forward(at::ones({4, 8}), at_step(0, at::arange(3))), std::runtime_error);
}

TEST(Dropout, LetsGradientsThroughWhereItKept) {
  const Dropout dropout(0.5, 0);
  const auto x = at::randn({4, 8}, at::kDouble).set_requires_grad(true);
  dropout.forward(x, at_step(0, at::arange(4))).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), dropout.mask_by_loop(at_step(0, at::arange(4)), 8).to(at::kDouble)));
}

}  // namespace
}  // namespace dpbench
