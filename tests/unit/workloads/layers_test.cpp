#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include <torch/csrc/autograd/variable.h>

#include "strategies/api/named_tensors.h"
#include "workloads/base/hash.h"
#include "workloads/layers/autocast.h"
#include "workloads/layers/conv.h"
#include "workloads/layers/delayed_weights.h"
#include "workloads/layers/dropout.h"
#include "workloads/layers/linear.h"
#include "workloads/layers/loss.h"
#include "workloads/layers/recorded_step.h"

namespace dpbench {
namespace {

TEST(HashMix32, FlipsHalfOfItsBitsOnAverageForEachInputBit) {
  for (int in = 0; in < 32; ++in) {
    int64_t flipped = 0;
    for (uint32_t i = 0; i < 4096; ++i) flipped += std::popcount(mix32(i) ^ mix32(i ^ (1u << in)));
    EXPECT_NEAR(static_cast<double>(flipped) / 4096, 16, 0.3) << "bit " << in;
  }
}

// Expected values from Python: torch.manual_seed(1); m = torch.nn.Linear(5, 2); m.weight.flatten(), m.bias
TEST(Linear, InitialisesLikePyTorch) {
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

// Returns the output, the loss and all parameter gradients of two linear layers with a ReLU between them.
template <class Layer, class Loss>
std::vector<at::Tensor> both_passes(Layer layer, Loss loss, std::vector<at::Tensor> p, const at::Tensor& x,
                                    const at::Tensor& labels) {
  for (at::Tensor& tensor : p) tensor = tensor.clone().set_requires_grad(true);
  const at::Tensor output = layer(layer(x, p[0], p[1]).relu_(), p[2], p[3]);
  const at::Tensor mean = loss(output, labels);
  mean.backward();
  std::vector<at::Tensor> found{output.detach(), mean.detach()};
  for (const at::Tensor& tensor : p) found.push_back(tensor.grad());
  return found;
}

TEST(Linear, LinearAndCrossEntropyAreBitIdenticalToTorch) {
  const auto torch_linear = [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
    return at::linear(x, w, b);
  };
  const auto torch_loss = [](const at::Tensor& x, const at::Tensor& labels) {
    return at::cross_entropy_loss(x, labels);
  };
  const auto generator = own_generator(5);
  for (const auto type : {at::kFloat, at::kDouble})
    for (const int64_t rows : {1, 7, 64, 256}) {
      std::vector<at::Tensor> p;
      for (const auto& shape : std::vector<std::vector<int64_t>>{{33, 50}, {33}, {10, 33}, {10}})
        p.push_back(at::randn(shape, generator).to(type));
      at::Tensor x = at::randn({rows, 50}, generator).to(type);
      const at::Tensor labels = at::randint(0, 10, {rows}, generator, at::kLong);
      for (const bool slope : {false, true}) {
        x = x.detach().set_requires_grad(slope);
        const auto expected = both_passes(torch_linear, torch_loss, p, x, labels);
        const at::Tensor input_gradient = x.grad();
        x.mutable_grad().reset();
        const auto found = both_passes(linear, cross_entropy, p, x, labels);
        for (size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(same_bits(found[i], expected[i]) && found[i].strides() == expected[i].strides())
              << "tensor " << i << ", batch of " << rows;
        EXPECT_EQ(x.grad().defined(), slope);
        EXPECT_TRUE(!slope || same_bits(x.grad(), input_gradient));
      }
    }
}

TEST(Linear, RefusesASecondBackwardAndAModifiedInput) {
  const at::Tensor w = at::ones({2, 3}).set_requires_grad(true), b = at::ones({2}).set_requires_grad(true),
                   labels = at::ones({4}, at::kLong);
  at::Tensor x = at::ones({4, 3});
  const at::Tensor loss = cross_entropy(linear(x, w, b), labels);
  loss.backward();
  EXPECT_THROW(loss.backward(), c10::Error);
  const at::Tensor other = cross_entropy(linear(x, w, b), labels);
  x.add_(1);
  EXPECT_THROW(other.backward(), c10::Error);
}

struct LinearGradients {
  at::Tensor input, weight, bias;
  bool delayed = false;  // true: the last backward pass did not change the weight's gradient
};

// Runs a model that uses one weight three times, in two micro-batches. Returns the gradients of the second
// micro-batch's input, of the weight and of the bias. delayed: receives the factors of the weight gradients, which are
// computed later; null: the backward pass computes the weight's gradient.
LinearGradients gradients_of(const std::shared_ptr<DelayedWeights>& delayed, bool bf16) {
  const at::Tensor weight = at::randn({6, 6}, own_generator(1)).requires_grad_(),
                   bias = at::randn({6}, own_generator(2)).requires_grad_();
  LinearGradients all;
  for (const uint64_t micro_batch : {3, 4}) {
    const at::Tensor input = at::randn({7, 6}, own_generator(micro_batch)).requires_grad_();
    at::Tensor loss;
    {
      const Autocast autocast(bf16, at::kCPU);
      const DelayedWeights::Scope scope(delayed);
      at::Tensor x = input;
      for (int layer = 0; layer < 3; ++layer) x = linear(x, weight, bias).relu();
      loss = x.to(at::kFloat).square().sum();
    }
    const at::Tensor before = weight.grad().defined() ? weight.grad().clone() : at::zeros_like(weight);
    loss.backward();
    all.delayed = !weight.grad().defined() || weight.grad().equal(before);
    if (delayed) delayed->compute();
    all.input = input.grad();
  }
  all.weight = weight.grad(), all.bias = bias.grad();
  return all;
}

TEST(DelayedWeightGradients, HaveTheSameBitsAsWithoutDelay) {
  for (const bool bf16 : {false, true}) {
    const LinearGradients whole = gradients_of(nullptr, bf16),
                          split = gradients_of(std::make_shared<DelayedWeights>(), bf16);
    EXPECT_FALSE(whole.delayed);
    EXPECT_TRUE(split.delayed);
    EXPECT_TRUE(whole.input.equal(split.input)) << bf16;
    EXPECT_TRUE(whole.weight.equal(split.weight)) << bf16;
    EXPECT_TRUE(whole.bias.equal(split.bias)) << bf16;
  }
}

TEST(DelayedWeightGradients, AreNotAddedAgainIfComputeIsCalledTwice) {
  const auto delayed = std::make_shared<DelayedWeights>();
  const at::Tensor weight = gradients_of(delayed, false).weight, before = weight.clone();
  delayed->compute();
  EXPECT_TRUE(weight.equal(before));
}

TEST(DelayedWeightGradients, DoNotKeepTheGraphOfTheirInput) {
  const at::Tensor weight = at::randn({6, 6}, own_generator(1)).requires_grad_();
  const auto delayed = std::make_shared<DelayedWeights>();
  const DelayedWeights::Scope scope(delayed);
  at::Tensor hidden = linear(at::randn({7, 6}, own_generator(2)), weight, at::Tensor());
  const c10::weak_intrusive_ptr<at::TensorImpl> watched(hidden.getIntrusivePtr());
  linear(hidden, weight, at::Tensor()).sum().backward();
  hidden.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(DelayedWeightGradients, BecomeTheParametersGradientWithoutACopy) {
  const at::Tensor weight = at::randn({6, 6}, own_generator(1)).requires_grad_();
  const void* product = nullptr;
  DelayedWeights delayed;
  delayed.add(torch::autograd::impl::gradient_edge(weight), [&] {
    at::Tensor gradient = at::randn({6, 6}, own_generator(2));
    product = gradient.const_data_ptr();
    return gradient;
  });
  delayed.compute();
  EXPECT_EQ(weight.grad().const_data_ptr(), product);
}

TEST(Conv, InitialisesWithinGlorotsBoundAndZeroBias) {
  Conv layer({.inputs = 12, .outputs = 24, .kernel = 6, .stride = 2, .bias = true}, Init::glorot, own_generator(3));
  const double bound = std::sqrt(6.0 / (36 * (12 + 24)));
  const auto parameters = layer.named_parameters();
  EXPECT_LE(parameters["weight"].abs().max().item<double>(), bound);
  EXPECT_GT(parameters["weight"].abs().max().item<double>(), 0.99 * bound);
  EXPECT_NEAR(parameters["weight"].var().item<double>(), bound * bound / 3, 0.03 * bound * bound / 3);
  EXPECT_EQ(parameters["bias"].abs().max().item<double>(), 0);
}

Context at_step(int64_t step, const at::Tensor& ids, uint64_t seed = 7) { return {seed, step, ids}; }

TEST(Dropout, DropsTheSameFeaturesOfASampleForEveryNumberOfRanks) {
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

TEST(Dropout, MasksComputedByALoopAndByTensorOperationsAreEqual) {
  const auto ids = at::tensor({int64_t{0}, int64_t{1}, int64_t{59'999}, int64_t{1} << 31, (int64_t{1} << 40) + 17});
  for (const double rate : {0.1, 0.5, 0.9}) {
    const Dropout dropout(rate, 2);
    const auto context = at_step(123'456'789'012, ids, 0xfedcba9876543210u);
    EXPECT_TRUE(same_bits(dropout.mask_by_loop(context, {0, 300}),
                          dropout.mask_by_tensors(context, {0, 300}, at::TensorOptions(at::kFloat))));
  }
}

TEST(Dropout, MaskIsTheSameIfTheStepNumberIsGivenAsATensor) {
  const auto ids = at::tensor({int64_t{0}, int64_t{59'999}, int64_t{1} << 31, (int64_t{1} << 40) + 17});
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, ~uint64_t{0}, uint64_t{0x8000000000000001}})
    for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{123'456'789'012}})
      for (const uint64_t layer : {uint64_t{0}, uint64_t{3}}) {
        const Dropout dropout(0.5, layer);
        const RecordedStep recorded(at::full({1}, step, at::kLong));
        EXPECT_TRUE(same_bits(dropout.mask_by_loop(at_step(step, ids, seed), {0, 300}),
                              dropout.mask(at_step(-1, ids, seed), {0, 300}, at::TensorOptions(at::kFloat))))
            << seed << ' ' << step << ' ' << layer;
      }
}

TEST(Dropout, MaskDependsOnSeedStepLayerSampleAndFeature) {
  const auto ids = at::arange(64);
  const auto mask = Dropout(0.5, 0).mask_by_loop(at_step(1, ids), {0, 256});
  const auto agreement = [&](const at::Tensor& other) { return mask.eq(other).to(at::kDouble).mean().item<double>(); };
  EXPECT_NEAR(agreement(Dropout(0.5, 0).mask_by_loop(at_step(2, ids), {0, 256})), 0.5, 0.02);
  EXPECT_NEAR(agreement(Dropout(0.5, 1).mask_by_loop(at_step(1, ids), {0, 256})), 0.5, 0.02);
  EXPECT_NEAR(agreement(Dropout(0.5, 0).mask_by_loop(at_step(1, ids, 8), {0, 256})), 0.5, 0.02);
  EXPECT_NEAR(agreement(Dropout(0.5, 0).mask_by_loop(at_step(1, ids + 64), {0, 256})), 0.5, 0.02);
  EXPECT_NEAR(agreement(mask.roll(1, 1)), 0.5, 0.02);
}

TEST(Dropout, DropsTheGivenRateAndScalesTheRestToKeepTheMean) {
  for (const double rate : {0.2, 0.5, 0.75}) {
    const auto mask = Dropout(rate, 0).mask_by_loop(at_step(1, at::arange(1000)), {0, 256});
    EXPECT_NEAR(mask.eq(0).to(at::kDouble).mean().item<double>(), rate, 0.005);
    EXPECT_FLOAT_EQ(mask.max().item<float>(), static_cast<float>(1 / (1 - rate)));
  }
}

TEST(Dropout, IsANoOpInEvaluation) {
  Dropout dropout(0.5, 0);
  dropout.eval();
  const auto x = at::randn({4, 8});
  EXPECT_TRUE(dropout.forward(x, {}).is_same(x));
}

TEST(Dropout, RefusesSamplesWithoutIds) {
  const Dropout dropout(0.5, 0);
  EXPECT_THROW(dropout.forward(at::ones({4, 8}), {}), std::runtime_error);
  EXPECT_THROW(dropout.forward(at::ones({4, 8}), at_step(0, at::arange(3))), std::runtime_error);
}

TEST(Dropout, PassesGradientsOnlyThroughKeptFeatures) {
  const Dropout dropout(0.5, 0);
  const auto x = at::randn({4, 8}, at::kDouble).set_requires_grad(true);
  dropout.forward(x, at_step(0, at::arange(4))).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), dropout.mask_by_loop(at_step(0, at::arange(4)), {0, 8}).to(at::kDouble)));
}

}  // namespace
}  // namespace dpbench
