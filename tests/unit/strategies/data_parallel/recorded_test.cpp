// Steps on a single device that are recorded and replayed. A recorder for the CPU stands in for CUDA graphs.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "strategies/graphs/packed_batches.h"
#include "strategies/graphs/recorded.h"
#include "tests/support/contains.h"
#include "tests/support/cpu_recorder.h"

namespace dpbench {
namespace {

struct Plan {
  std::string workload;
  std::vector<int64_t> rows;  // samples in step 0, 1, ...; after the last number, the list repeats
  at::ScalarType dtype = at::kFloat;
  int64_t accumulate = 1;
  std::optional<double> clip_norm = {};
};

class Pair {
 public:
  explicit Pair(const Plan& plan)
      : plan_(plan),
        workload_(workload_registry().at(plan.workload).make({})),
        plain_(strategy_registry().at("cpu").make(setup())),
        recorded_(make_recorded(setup(), std::make_unique<CpuRecorder>(counts))) {
    counts.forget_gradients = [this] {
      for (auto& [name, tensor] : recorded_->parameters()) tensor.mutable_grad().reset();
    };
  }

  // Takes a step with and without recording. Outputs, losses, gradients and all state must agree bit for bit.
  void step(int64_t step) {
    const int64_t rows = plan_.rows[static_cast<size_t>(step) % plan_.rows.size()];
    std::vector<Batch> micro;
    for (const auto& ids : at::arange(rows).add(step * 7).remainder(workload_->samples()).chunk(plan_.accumulate)) {
      workload_->prepare(ids);
      micro.push_back(workload_->batch(ids));
    }
    Phases phases;
    const StepResult a = plain_->step(step, micro, phases), b = recorded_->step(step, micro, phases);
    EXPECT_TRUE(at::equal(a.output, b.output)) << "step " << step;
    EXPECT_TRUE(at::equal(a.loss, b.loss)) << "step " << step;
    EXPECT_FALSE(b.output.requires_grad() || b.loss.requires_grad());
    expect_equal(plain_->gradients(), recorded_->gradients(), step);
    expect_equal(plain_->parameters(), recorded_->parameters(), step);
    expect_equal(plain_->buffers(), recorded_->buffers(), step);
    expect_equal(plain_->state(), recorded_->state(), step);
  }

  RecorderCounts counts;

 private:
  Setup setup() const {
    return {.workload = *workload_,
            .devices = {at::kCPU},
            .init_seed = 3,
            .step_seed = 4,
            .dtype = plan_.dtype,
            .params = Params(strategy_registry().at("cpu").params, {}, "cpu"),
            .accumulate = plan_.accumulate,
            .clip_norm = plan_.clip_norm};
  }
  static void expect_equal(const NamedTensors& a, const NamedTensors& b, int64_t step) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].second.defined(), b[i].second.defined()) << a[i].first << ", step " << step;
      if (!a[i].second.defined()) continue;
      EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first << ", step " << step;
    }
  }

  Plan plan_;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<Strategy> plain_, recorded_;
};

TEST(RecordedSteps, OfModelsWithExpertsAreRefused) {
  Pair pair({.workload = "probe-experts", .rows = {4}});
  try {
    pair.step(0);
    FAIL() << "recorded";
  } catch (const UsageError& error) {
    EXPECT_TRUE(mentions_in_order(error.what(), {"cpu.graph=on", "experts", "graph=off"}));
  }
}

TEST(RecordedSteps, ReplayEqualsThePlainStepInFloat32Float64AndBfloat16) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const auto& [workload, rows] :
         {std::pair<std::string, int64_t>{"random-linear", 30}, {"mnist-mlp", 16}, {"convnet", 8}}) {
      SCOPED_TRACE(workload + " " + at::toString(dtype));
      Pair pair({.workload = workload, .rows = {rows}, .dtype = dtype});
      for (int64_t step = 0; step < 5; ++step) pair.step(step);
      EXPECT_EQ(pair.counts.recordings, 1);
      EXPECT_EQ(pair.counts.replays, 4);
    }
}

TEST(RecordedSteps, RecordEachBatchSizeOnceAndReturnTheGradientsOfTheLastStep) {
  Pair pair({.workload = "random-linear", .rows = {30, 30, 30, 10}});
  for (int64_t step = 0; step < 12; ++step) pair.step(step);
  EXPECT_EQ(pair.counts.recordings, 2);
  EXPECT_EQ(pair.counts.replays, 10);
}

TEST(RecordedSteps, AccumulateAndClipLikePlainSteps) {
  Pair pair({.workload = "convnet", .rows = {9}, .accumulate = 2, .clip_norm = 0.01});
  for (int64_t step = 0; step < 4; ++step) pair.step(step);
}

TEST(RecordedSteps, UseTheScheduledLearningRateOfEachReplayedStep) {
  for (const std::string workload : {"probe-mlp-sgd", "gpt"}) {
    Pair pair({.workload = workload, .rows = {4}});
    for (int64_t step = 0; step < 5; ++step) pair.step(step);
    EXPECT_EQ(pair.counts.replays, 4) << workload;
  }
}

TEST(RecordedSteps, ReplayEqualsThePlainStepIfStepNumbersJump) {
  Pair pair({.workload = "convnet", .rows = {8}});
  for (const int64_t step : {0, 1, 2, 40, 41, 5}) pair.step(step);
}

TEST(PackedBatches, ConvertEachLoadedBatchToTheirDtypeAtAFixedAddress) {
  const auto batch = [](double x) {
    return Batch{at::full({3, 5}, x), at::arange(3).add(static_cast<int64_t>(x)),
                 at::arange(3).mul(static_cast<int64_t>(x))};
  };
  const std::vector<Batch> like = {batch(0), batch(0)}, later = {batch(2), batch(3)};
  PackedBatches rows(like, at::kCPU, at::kDouble);
  const auto* const address = rows.micro()[1].input.data_ptr();
  rows.load(later);
  for (size_t i = 0; i < later.size(); ++i) {
    EXPECT_TRUE(at::equal(rows.micro()[i].input, later[i].input.to(at::kDouble)));
    EXPECT_TRUE(at::equal(rows.micro()[i].target, later[i].target));
    EXPECT_TRUE(at::equal(rows.micro()[i].ids, later[i].ids));
  }
  EXPECT_EQ(rows.micro()[1].input.data_ptr(), address);
  for (int again = 0; again < 20; ++again) {
    rows.load(std::vector<Batch>{batch(again), batch(again + 1)});
    EXPECT_TRUE(at::equal(rows.micro()[1].ids, batch(again + 1).ids));
  }
}

TEST(RecordedSteps, AreAUsageErrorOnACpu) {
  const auto workload = workload_registry().at("random-linear").make({});
  const StrategyInfo& gpu = strategy_registry().at("gpu");
  const dpbench::Setup setup{.workload = *workload,
                             .devices = {at::kCPU},
                             .params = Params(gpu.params, {{"graph", "on"}}, "gpu"),
                             .clip_norm = {}};
  EXPECT_THROW(gpu.make(setup), UsageError);
}

}  // namespace
}  // namespace dpbench
