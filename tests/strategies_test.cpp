// The built-in strategies against each other on a small model; what each promises in full is the conformance suite's.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "strategies/flat.h"
#include "strategies/optimizer.h"
#include "strategies/replica_threads.h"
#include "strategies/strategy.h"

namespace dpbench {
namespace {

class TwoLayers : public Model {
 public:
  explicit TwoLayers(uint64_t seed) {
    auto generator = at::detail::createCPUGenerator(seed);
    hidden_ = register_parameter("hidden", at::randn({7, 5}, generator));
    out_ = register_parameter("out", at::randn({2, 7}, generator));
    unused_ = register_parameter("unused", at::ones({3}));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    return at::linear(at::tanh(at::linear(input, hidden_)), out_);
  }

 private:
  at::Tensor hidden_, out_, unused_;
};

class Toy : public Workload {
 public:
  explicit Toy(OptimizerSpec spec = {}) : spec_(spec) {
    auto generator = at::detail::createCPUGenerator(11);
    input_ = at::randn({100, 5}, generator);
    target_ = at::randn({100, 2}, generator);
  }
  int64_t samples() const override { return 100; }
  std::shared_ptr<Model> model(uint64_t seed) const override { return std::make_shared<TwoLayers>(seed); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return at::mse_loss(output, target);
  }
  OptimizerSpec optimizer() const override { return spec_; }
  Batch batch(const at::Tensor& ids) const override { return {input_.index_select(0, ids), target_.index_select(0, ids), ids}; }

 private:
  OptimizerSpec spec_;
  at::Tensor input_, target_;
};

std::unique_ptr<Strategy> make_strategy(const std::string& name, const Workload& workload, size_t devices,
                                        std::optional<double> clip = {}) {
  const StrategyInfo& info = strategy_registry().at(name);
  return info.make({.workload = workload,
                    .devices = std::vector<at::Device>(devices, at::Device(at::kCPU)),
                    .group = {},
                    .init_seed = 3,
                    .step_seed = 4,
                    .dtype = at::kDouble,
                    .params = Params(info.params, {}, name),
                    .clip_norm = clip});
}

// What three steps on 10 rows, cut into micro-batches, leave behind.
std::vector<at::Tensor> parameters_after(Strategy& strategy, const Workload& workload, int64_t micros) {
  Phases phases;
  for (int64_t step = 0; step < 3; ++step) {
    std::vector<Batch> batches;
    for (const at::Tensor& ids : at::arange(10 * step, 10 * step + 10).chunk(micros)) batches.push_back(workload.batch(ids));
    strategy.step(step, batches, phases);
  }
  std::vector<at::Tensor> parameters;
  for (const auto& [name, tensor] : strategy.parameters()) parameters.push_back(tensor);
  return parameters;
}

class Replicated : public testing::TestWithParam<std::tuple<std::string, size_t, int64_t>> {};

TEST_P(Replicated, LeavesTheParametersOfOneDevice) {
  const auto& [name, devices, micros] = GetParam();
  for (const auto kind : {OptimizerSpec::Kind::sgd, OptimizerSpec::Kind::adam}) {
    const Toy toy({.kind = kind, .learning_rate = 0.1});
    const auto expected = parameters_after(*make_strategy("cpu", toy, 1), toy, micros);
    const auto found = parameters_after(*make_strategy(name, toy, devices), toy, micros);
    ASSERT_EQ(expected.size(), 3U);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-10, 1e-12)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Dp, Replicated,
                         testing::Combine(testing::Values("dp", "dp-upstream"), testing::Values(1, 2, 3, 8),
                                          testing::Values(1, 2)));

TEST(DataParallel, LeavesTheGradientOfAnUnusedParameterUndefined) {
  const Toy toy;
  const auto dp = make_strategy("dp", toy, 3);
  parameters_after(*dp, toy, 1);
  for (const auto& [name, gradient] : dp->gradients()) EXPECT_EQ(gradient.defined(), name != "unused") << name;
}

TEST(Clipping, LimitsTheGlobalNormOfTheGradients) {
  const Toy toy;
  const auto cpu = make_strategy("cpu", toy, 1, 0.5);
  parameters_after(*cpu, toy, 1);
  double squares = 0;
  for (const auto& [name, gradient] : cpu->gradients())
    if (gradient.defined()) squares += gradient.pow(2).sum().item<double>();
  EXPECT_NEAR(std::sqrt(squares), 0.5, 1e-5);
}

TEST(ReplicaThreads, NamesTheReplicaThatFailed) {
  ReplicaThreads threads(4);
  try {
    threads.run(4, [](int i) {
      if (i >= 2) throw std::runtime_error("no luck");
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "replica 2: no luck");
  }
  std::atomic<int> sum{0};
  threads.run(3, [&](int i) { sum += i + 1; });
  EXPECT_EQ(sum, 6);
}

TEST(ReplicaThreads, CarryTheGradientModeOfTheCaller) {
  ReplicaThreads threads(3);
  std::atomic<int> enabled{0};
  const auto count = [&](int) { enabled += at::GradMode::is_enabled(); };
  threads.run(3, count);
  EXPECT_EQ(enabled, 3);
  const at::NoGradGuard no_grad;
  threads.run(3, count);
  EXPECT_EQ(enabled, 3);
}

TEST(Flat, HoldsMixedTypesAndLayoutsInOneBufferEach) {
  std::vector<at::Tensor> tensors = {at::arange(6.0).view({2, 3}).to(at::kFloat), at::arange(4),
                                     at::arange(24.0).to(at::kFloat).view({1, 2, 3, 4}).contiguous(at::MemoryFormat::ChannelsLast),
                                     at::arange(6.0).to(at::kFloat).view({2, 3}).t()};
  std::vector<at::Tensor> before;
  for (const auto& tensor : tensors) before.push_back(tensor.clone());
  Flat flat(tensors);
  flat.adopt(tensors);
  EXPECT_EQ(flat.buffers().size(), 2U);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(tensors[i].equal(before[i]));
    EXPECT_EQ(tensors[i].strides(), before[i].strides());
    EXPECT_TRUE(tensors[i].is_alias_of(flat.views()[i]));
  }
}

}  // namespace
}  // namespace dpbench
