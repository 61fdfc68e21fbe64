// The built-in strategies compared with each other on a small model. The conformance suite checks everything that the
// strategies promise.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "strategies/api/backend.h"
#include "strategies/api/parts/flat.h"
#include "strategies/api/parts/optimizer.h"
#include "strategies/api/strategy.h"
#include "strategies/parts/replica_threads.h"
#include "tests/support/contains.h"
#include "tests/support/own_cores.h"
#include "workloads/base/cores.h"
#include "workloads/base/joined_samples.h"

namespace dpbench {
namespace {

constexpr int64_t never = 1000;

class TwoLayers : public Model {
 public:
  explicit TwoLayers(uint64_t seed, int64_t writes_from = never) : writes_from_(writes_from) {
    auto generator = at::detail::createCPUGenerator(seed);
    hidden_ = register_parameter("hidden", at::randn({7, 5}, generator));
    out_ = register_parameter("out", at::randn({2, 7}, generator));
    unused_ = register_parameter("unused", at::ones({3}));
  }
  at::Tensor forward(const at::Tensor& input, const Context& context) override {
    if (context.step >= writes_from_) {
      const at::NoGradGuard no_grad;
      hidden_.mul_(0.5);
    }
    return at::linear(at::tanh(at::linear(input, hidden_)), out_);
  }

 private:
  int64_t writes_from_;  // number of the first step in which the model writes to its own parameter
  at::Tensor hidden_, out_, unused_;
};

class Toy : public Workload {
 public:
  explicit Toy(OptimizerSpec spec = {}, int64_t writes_from = never) : spec_(spec), writes_from_(writes_from) {
    auto generator = at::detail::createCPUGenerator(11);
    input_ = at::randn({100, 5}, generator);
    target_ = at::randn({100, 2}, generator);
  }
  int64_t samples() const override { return 100; }
  std::shared_ptr<Model> model(uint64_t seed) const override {
    return ++made, std::make_shared<TwoLayers>(seed, writes_from_);
  }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return at::mse_loss(output, target);
  }
  OptimizerSpec optimizer() const override { return spec_; }
  Batch batch(const at::Tensor& ids) const override {
    return {input_.index_select(0, ids), target_.index_select(0, ids), ids};
  }

  mutable int made = 0;

 private:
  OptimizerSpec spec_;
  int64_t writes_from_;
  at::Tensor input_, target_;
};

std::vector<OptimizerSpec> optimizers() {
  return {{.learning_rate = 0.1, .warmup_steps = 2},
          {.learning_rate = 0.1, .momentum = 0.9},
          {.kind = OptimizerSpec::Kind::adam, .learning_rate = 0.1, .weight_decay = 0.2}};
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, const Workload& workload, size_t devices,
                                        std::optional<double> clip = {}, uint64_t init_seed = 3) {
  const StrategyInfo& info = strategy_registry().at(name);
  return info.make({.workload = workload,
                    .devices = std::vector<at::Device>(devices, at::Device(at::kCPU)),
                    .init_seed = init_seed,
                    .step_seed = 4,
                    .dtype = at::kDouble,
                    .params = Params(info.params, {}, name),
                    .clip_norm = clip});
}

// Returns the parameters after three steps of 10 samples. Each step is split into `micros` micro-batches.
std::vector<at::Tensor> parameters_after(Strategy& strategy, const Workload& workload, int64_t micros) {
  Phases phases;
  for (int64_t step = 0; step < 3; ++step) {
    std::vector<Batch> batches;
    for (const at::Tensor& ids : at::arange(10 * step, 10 * step + 10).chunk(micros))
      batches.push_back(workload.batch(ids));
    strategy.step(step, batches, phases);
  }
  std::vector<at::Tensor> parameters;
  for (const auto& [name, tensor] : strategy.parameters()) parameters.push_back(tensor);
  return parameters;
}

class Replicated : public testing::TestWithParam<std::tuple<std::string, size_t, int64_t>> {};

TEST_P(Replicated, TrainingGivesTheParametersOfASingleDevice) {
  const auto& [name, devices, micros] = GetParam();
  for (const OptimizerSpec& spec : optimizers()) {
    const Toy toy(spec);
    const auto expected = parameters_after(*make_strategy("cpu", toy, 1), toy, micros);
    const auto found = parameters_after(*make_strategy(name, toy, devices), toy, micros);
    ASSERT_EQ(expected.size(), 3U);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-10, 1e-12)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Dp, Replicated,
                         testing::Combine(testing::Values("dp", "dp-upstream"), testing::Values(1, 2, 3, 8),
                                          testing::Values(1, 2)));

std::string refusal_of(const StrategyInfo& info) {
  const RegisterStrategy registered(info);
  try {
    require_valid_registrations("test");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "registered";
}

TEST(Registration, RejectsAStrategyWithoutAMakeFunction) {
  EXPECT_TRUE(mentions(refusal_of({.name = "unmade", .summary = ""}), {"unmade", ".make"}));
  EXPECT_FALSE(strategy_registry().find("unmade"));
  EXPECT_NO_THROW(require_valid_registrations("test")) << "each error is reported once";
}

TEST(Registration, RejectsLocalGradientsWithoutAnAveragingInterval) {
  StrategyInfo info{
      .name = "endless", .summary = "", .gradient = Gradient::local, .make = strategy_registry().at("ddp").make};
  EXPECT_TRUE(mentions(refusal_of(info), {"endless", "Gradient::local", "average_every"}));
  info.promise = [](StrategyInfo& promises, const Params&) { promises.average_every = 0; };
  info.average_every = 2;
  EXPECT_THROW(promised(info, {}), UsageError) << "a parameter sets the interval to 0";
}

TEST(Registration, RejectsSettingsAndVariantsThatNameUndeclaredParameters) {
  StrategyInfo info{.name = "mute", .summary = "", .make = strategy_registry().at("ddp").make};
  info.settings.revealing = {{"cap", "1"}};
  EXPECT_TRUE(mentions(refusal_of(info), {"mute", "'cap'"}));
  info.settings = {};
  info.variants = {{"large", {{"size", "2"}}}};
  EXPECT_TRUE(mentions(refusal_of(info), {"mute", "'size'"}));
}

TEST(Phases, OverlappingTimeSpansOfCommunicationAreCountedOnce) {
  using namespace std::chrono_literals;
  Phases phases(true);
  phases.enter(Phase::backward);
  const auto begin = phases.since();
  std::this_thread::sleep_for(5ms);
  phases.move(Phase::communication, begin + 1ms, begin + 2ms);
  phases.move(Phase::communication, begin + 3ms, begin + 4ms);
  phases.move(Phase::communication, begin + 1500us, begin + 5ms);
  phases.move(Phase::communication, begin + 1ms, begin + 5ms);
  phases.leave();
  const auto& ns = phases.total_ns();
  EXPECT_EQ(ns[static_cast<size_t>(Phase::communication)], 4'000'000);
  EXPECT_EQ(ns[static_cast<size_t>(Phase::backward)], (phases.since() - begin).count() - 4'000'000);
}

TEST(StrategyGpu, RejectsTf32OnACpu) {
  const Toy toy;
  const StrategyInfo& gpu = strategy_registry().at("gpu");
  const auto with = [&](const char* tf32) {
    return gpu.make({.workload = toy,
                     .devices = {at::kCPU},
                     .params = Params(gpu.params, {{"tf32", tf32}}, "gpu"),
                     .clip_norm = {}});
  };
  EXPECT_NO_THROW(with("off"));
  try {
    with("on");
    ADD_FAILURE() << "not refused";
  } catch (const UsageError& error) {
    EXPECT_TRUE(mentions(error.what(), {"gpu.tf32=on", "CPU"}));
  }
}

// dp-upstream copies the model in every step, but not for a single device, like torch's data_parallel.
TEST(DpUpstream, ClonesTheModelInEachStepOnlyIfThereAreSeveralDevices) {
  const auto made_in_steps = [](size_t devices) {
    const Toy toy;
    const auto strategy = make_strategy("dp-upstream", toy, devices);
    const int before = toy.made;
    parameters_after(*strategy, toy, 1);
    for (const auto& [name, gradient] : strategy->gradients()) EXPECT_EQ(gradient.defined(), name != "unused") << name;
    return toy.made - before;
  };
  EXPECT_EQ(made_in_steps(1), 0);
  EXPECT_EQ(made_in_steps(2), 3 * 2) << "three steps";
}

TEST(DataParallel, LeavesTheGradientOfAnUnusedParameterUndefined) {
  const Toy toy;
  const auto dp = make_strategy("dp", toy, 3);
  parameters_after(*dp, toy, 1);
  for (const auto& [name, gradient] : dp->gradients()) EXPECT_EQ(gradient.defined(), name != "unused") << name;
}

TEST(DataParallel, KeepsOnlyTheWritesThatTheFirstReplicaMakesToParameters) {
  const Toy toy({.kind = OptimizerSpec::Kind::sgd, .learning_rate = 0.1}, /*writes_from=*/0);
  const auto expected = parameters_after(*make_strategy("cpu", toy, 1), toy, 1);
  const auto found = parameters_after(*make_strategy("dp", toy, 3), toy, 1);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-10, 1e-12)) << i;
}

TEST(DataParallel, RejectsAWriteToParametersThatReplicasShare) {
  const Toy toy({}, /*writes_from=*/2);
  const auto dp = make_strategy("dp", toy, 3);
  try {
    parameters_after(*dp, toy, 1);
    FAIL() << "no error after a write to shared parameters";
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(mentions(error.what(), {"parameter"}));
  }
}

// Takes three steps, a snapshot and three more steps. A second strategy that loads the snapshot must get the same bits
// in the last three steps.
void expect_same_after_loading(const std::function<std::unique_ptr<Strategy>(uint64_t seed)>& make,
                               const Workload& workload) {
  const auto first = make(3);
  parameters_after(*first, workload, 1);
  const Snapshot kept = snapshot_of(*first);
  const auto expected = parameters_after(*first, workload, 1);
  const auto second = make(8);
  EXPECT_FALSE(at::equal(second->parameters()[0].second, kept.parameters[0].second)) << "nothing to load";
  second->load(kept);
  const auto found = parameters_after(*second, workload, 1);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
  const Snapshot a = snapshot_of(*first), b = snapshot_of(*second);
  EXPECT_EQ(a.state.empty(), state_slots(workload.optimizer()).empty());
  for (size_t i = 0; i < a.state.size(); ++i)
    EXPECT_TRUE(at::equal(a.state[i].second, b.state[i].second)) << a.state[i].first;
}

class Loaded : public testing::TestWithParam<std::string> {};

TEST_P(Loaded, TrainingContinuesFromALoadedSnapshotWithTheSameBits) {
  for (const OptimizerSpec& spec : optimizers()) {
    const Toy toy(spec);
    const size_t devices = GetParam() == "cpu" ? 1 : 3;
    expect_same_after_loading([&](uint64_t seed) { return make_strategy(GetParam(), toy, devices, {}, seed); }, toy);
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, Loaded, testing::Values("cpu", "dp", "dp-upstream"));

TEST(Loading, DdpContinuesFromASnapshotWithTheSameBitsOnAllRanks) {
  const auto dense = workload_registry().at("convnet").make({});
  constexpr int world = 2;
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const StrategyInfo& info = strategy_registry().at("ddp");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      const auto group = make_process_group("threads", {.store = store,
                                                        .rank = rank,
                                                        .world = world,
                                                        .local_rank = rank,
                                                        .local_world = world,
                                                        .device = at::kCPU,
                                                        .directory = ""});
      const auto make = [&](uint64_t seed) {
        return info.make({.workload = *dense,
                          .devices = {at::kCPU},
                          .mesh = Mesh("dp", group),
                          .init_seed = seed,
                          .step_seed = 4,
                          .dtype = at::kFloat,
                          .params = Params(info.params, {}, "ddp"),
                          .clip_norm = {}});
      };
      expect_same_after_loading(make, *dense);
    });
  for (auto& thread : threads) thread.join();
}

std::string refusal_of(Strategy& strategy, const Snapshot& snapshot) {
  try {
    strategy.load(snapshot);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Loading, RejectsASnapshotWithOtherTensorsShapesOrDtypesThanTheModelAndNamesTheTensor) {
  const Toy toy({.kind = OptimizerSpec::Kind::adam});
  const auto cpu = make_strategy("cpu", toy, 1);
  const Snapshot good = snapshot_of(*cpu);
  EXPECT_EQ(refusal_of(*cpu, good), "nothing was refused");
  Snapshot bad = good;
  bad.parameters[1].second = at::zeros({3, 7}, at::kDouble);
  EXPECT_TRUE(mentions(refusal_of(*cpu, bad), {"'out'", "Double [2, 7]", "Double [3, 7]"}));
  bad = good;
  bad.parameters[1].second = bad.parameters[1].second.to(at::kFloat);
  EXPECT_TRUE(mentions(refusal_of(*cpu, bad), {"'out'", "Double [2, 7]", "Float [2, 7]"}));
  bad = good;
  bad.parameters.pop_back();
  EXPECT_TRUE(mentions(refusal_of(*cpu, bad), {"'unused'"}));
  bad = good;
  bad.buffers.emplace_back("mean", at::zeros({1}));
  EXPECT_TRUE(mentions(refusal_of(*cpu, bad), {"buffer", "'mean'"}));
  bad = good;
  bad.state.clear();
  EXPECT_TRUE(mentions(refusal_of(*cpu, bad), {"optimizer state", "'hidden.momentum'"}));
  bad = good;
  bad.parameters[0].second.fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(refusal_of(*cpu, bad), "nothing was refused") << "NaN is loaded unchanged";
}

// A strategy that returns copies of its parameters, like one that gathers sharded parameters.
class Gathering : public Strategy {
 public:
  StepResult step(int64_t, std::span<const Batch>, Phases&) override { return {}; }
  at::Tensor forward(const Batch&) override { return {}; }
  NamedTensors parameters() override { return {{"w", at::zeros({2})}}; }
  NamedTensors gradients() override { return {}; }
  NamedTensors buffers() override { return {}; }
  NamedTensors state() override { return {}; }
};

TEST(Loading, RefusesASnapshotForAStrategyThatReturnsCopiesOfItsParameters) {
  Gathering strategy;
  EXPECT_THROW(strategy.load({.parameters = {{"w", at::ones({2})}}}), Unavailable);
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

TEST(ReplicaThreads, NameTheFirstFailedReplicaAndStayUsable) {
  ReplicaThreads threads(4);
  try {
    threads.run(4, [](int i) {
      if (i >= 2) throw std::runtime_error("no luck");
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(mentions(error.what(), {"replica 2", "no luck"}));
  }
  std::atomic<int> sum{0};
  threads.run(3, [&](int i) { sum += i + 1; });
  EXPECT_EQ(sum, 6);
}

TEST(DataParallel, RejectsAnUnknownValueOfItsParameterNamedLink) {
  const StrategyInfo& dp = strategy_registry().at("dp");
  const auto workload = workload_registry().at("random-linear").make({});
  const auto made = [&](const std::string& link) {
    return dp.make({.workload = *workload,
                    .devices = {at::kCPU, at::kCPU},
                    .params = Params(dp.params, {{"link", link}}, "dp"),
                    .clip_norm = {}});
  };
  EXPECT_NO_THROW(made("auto"));
  EXPECT_NO_THROW(made("plain"));
  try {
    made("nonsense");
    FAIL() << "nothing was refused";
  } catch (const UsageError& error) {
    EXPECT_TRUE(mentions(error.what(), {"dp.link=nonsense", "auto", "plain"}));
  }
}

// ReplicaThreads rethrows an error of a thread with its type, because callers tell errors apart by type, for example
// std::bad_alloc (out of memory).
TEST(ReplicaThreads, RethrowAnErrorWithItsType) {
  ReplicaThreads threads(3);
  const auto run_with_error = [&](const std::function<void()>& one) {
    threads.run(3, [&](int i) {
      if (i == 1) one();
    });
  };
  try {
    run_with_error([] { throw std::bad_alloc(); });
    FAIL() << "nothing was thrown";
  } catch (const std::bad_alloc& error) {
    EXPECT_TRUE(mentions(error.what(), {"replica 1", "memory"}));
  }
  EXPECT_THROW(run_with_error([] { throw UsageError("a value"); }), UsageError);
  EXPECT_THROW(run_with_error([] { throw Unavailable("a device"); }), Unavailable);
  EXPECT_THROW(run_with_error([] { TORCH_CHECK_WITH(OutOfMemoryError, false, "of a GPU"); }), c10::OutOfMemoryError);
  try {
    run_with_error([] { TORCH_CHECK(false, "of torch's own"); });
    FAIL() << "nothing was thrown";
  } catch (const c10::Error& error) {
    EXPECT_TRUE(mentions(error.what_without_backtrace(), {"replica 1"}));
  }
}

TEST(ReplicaThreads, UseTheGradModeOfTheCallingThread) {
  ReplicaThreads threads(3);
  std::atomic<int> enabled{0};
  const auto count = [&](int) { enabled += at::GradMode::is_enabled(); };
  threads.run(3, count);
  EXPECT_EQ(enabled, 3);
  const at::NoGradGuard no_grad;
  threads.run(3, count);
  EXPECT_EQ(enabled, 3);
}

TEST(ReplicaThreads, BusyWaitOnlyIfEachThreadHasItsOwnCore) {
  const std::vector<int> cores = own_cores();
  const auto count = static_cast<int>(cores.size());
  ASSERT_GE(count, 1);
  EXPECT_EQ(usable_cores(), count);
  EXPECT_GT(ReplicaThreads(count).spins(), 0);
  EXPECT_EQ(ReplicaThreads(count + 1).spins(), 0);
  const OnCores one({cores.back()});
  EXPECT_EQ(usable_cores(), 1);
  EXPECT_GT(ReplicaThreads(1).spins(), 0);
  ReplicaThreads crowded(3);
  EXPECT_EQ(crowded.spins(), 0);
  std::atomic<int> sum{0};
  for (int i = 0; i < 50; ++i) crowded.run(3, [&](int replica) { sum += replica; });
  EXPECT_EQ(sum, 50 * 3);
}

TEST(JoinedSamples, OfDifferentShapesArePaddedWithZerosBehindTheSmallerOnes) {
  const at::Tensor joined = joined_samples({at::full({1, 2, 1}, 3), at::full({2, 1, 2}, 5)});
  EXPECT_TRUE(at::equal(joined, at::tensor({3, 0, 3, 0, 5, 5, 0, 0, 5, 5, 0, 0}).view({3, 2, 2}))) << joined;
  EXPECT_THROW(joined_samples({at::scalar_tensor(1), at::scalar_tensor(2)}), std::exception);
}

TEST(Flat, PacksTensorsIntoOneBufferPerDtypeKeepingValuesAndStrides) {
  std::vector<at::Tensor> tensors = {
      at::arange(6.0).view({2, 3}).to(at::kFloat), at::arange(4),
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
