// A strategy that records its steps does so before anything is timed. As on a GPU: here one pretends.
#include <map>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/worker/measure/block_run.h"
#include "harness/worker/measure/profile_case.h"
#include "harness/worker/measure/run_case.h"
#include "tests/unit/around.h"

namespace dpbench {
namespace {

enum class How { as_it_is, recorded, replayed };

struct Call {
  int64_t step, rows;
  How how;
};

// Takes as many steps of a shape as one may before it replays.
class Pretending : public Around {
 public:
  static inline std::vector<Call> calls;  // of the one made last

  explicit Pretending(const Setup& setup) : Around(with_defaults("cpu", setup)), records_(setup.params.flag("graph")) {
    calls.clear();
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const int64_t rows = micro[0].rows();
    const int met = ++met_[rows];
    calls.push_back({step, rows, !records_ || met < 4 ? How::as_it_is : met == 4 ? How::recorded : How::replayed});
    return inner_->step(step, micro, phases);
  }

 private:
  bool records_;
  std::map<int64_t, int> met_;
};

const RegisterStrategy pretending{
    {.name = "pretending",
     .summary = "pretends to record its steps",
     .parallelism = Parallelism::single,
     .params = {{"graph", "off", "on: the fourth of a shape is recorded"}},
     .make = make<Pretending>,
     .promise = [](StrategyInfo& info, const Params& params) { info.recorded = params.flag("graph"); }}};

const Sampling quick{.warmup = 5, .samples = 2, .steps = 4};

// Random-linear's 100 rows in batches of so many.
CaseSpec case_of(int64_t batch, const char* graph) {
  CaseSpec spec;
  spec.strategy = "pretending";
  spec.params = {{"graph", graph}};
  spec.workload = "random-linear";
  spec.scaling = Scaling::strong;
  spec.batch = batch;
  return spec;
}

class RecordingSteps : public testing::Test {
 protected:
  RecordingSteps() : group_(alone()) {}
  void timed(const CaseSpec& spec) {
    StepSource source(*workload_, spec, strategy_registry().at(spec.strategy), 0);
    const auto strategy = strategy_registry().at(spec.strategy).make(setup(spec));
    GpuWatch none({});
    time_steps(*strategy, source, recording_steps(spec, source), quick, group_, pulse_, none);
  }
  dpbench::Setup setup(const CaseSpec& spec) const {
    return {.workload = *workload_,
            .devices = {at::Device(at::kCPU)},
            .group = {},
            .params = Params(strategy_registry().at(spec.strategy).params, spec.params, spec.strategy),
            .clip_norm = {}};
  }
  static void expect_replayed(size_t last) {
    const auto& calls = Pretending::calls;
    ASSERT_GE(calls.size(), last);
    for (size_t i = calls.size() - last; i < calls.size(); ++i)
      EXPECT_EQ(calls[i].how, How::replayed)
          << "call " << i << " of " << calls.size() << ", " << calls[i].rows << " rows";
  }

  std::unique_ptr<Workload> workload_ = workload_registry().at("random-linear").make({});
  Group group_;
  Pulse pulse_{"", 0};

 private:
  static Variables alone() {
    Variables variables;
    variables.backend = "none";
    variables.device = Device::cpu;
    return variables;
  }
};

TEST_F(RecordingSteps, AreTakenBeforeTheTimeOfAStepIsAsked) {
  timed(case_of(30, "on"));
  const auto& calls = Pretending::calls;
  ASSERT_EQ(calls.size(), 5U + 2 * 4 + 2 * 4) << "of 30 rows and of 10, four more each";
  expect_replayed(3 + 2 * 4);  // the second half of the warm-up says how many steps a sample takes
  EXPECT_EQ(calls[calls.size() - 8].step, 5) << "the samples begin where they would without";
}

TEST_F(RecordingSteps, AreNotAWholeEpoch) {
  timed(case_of(3, "on"));
  EXPECT_EQ(Pretending::calls.size(), 5U + 2 * 4 + 2 * 4) << "of 34 steps one has 1 row";
  timed(case_of(5, "on"));
  EXPECT_EQ(Pretending::calls.size(), 5U + 4 + 2 * 4) << "all alike";
}

TEST_F(RecordingSteps, AreNoneOfAStrategyThatRecordsNothing) {
  timed(case_of(30, "off"));
  EXPECT_EQ(Pretending::calls.size(), 5U + 2 * 4);
}

TEST_F(RecordingSteps, AreTakenBeforeTheFirstBlockOfADuel) {
  BlockRun run(case_of(30, "on"), quick.warmup, group_, pulse_, "");
  const size_t before = Pretending::calls.size();
  for (int i = 0; i < 2; ++i) run.block(quick);
  expect_replayed(3 + Pretending::calls.size() - before);
  run.finish();
}

TEST_F(RecordingSteps, AreTakenBeforeStepsAreWatched) {
  const CaseSpec spec = case_of(30, "on");
  StepSource source(*workload_, spec, strategy_registry().at(spec.strategy), 0);
  RankRecord record;
  record.steps_per_sample = 4;
  profile_case(spec, setup(spec), source, quick, group_, pulse_, record);
  expect_replayed(static_cast<size_t>(record.profile->steps));
}

TEST(Recorded, IsWhatEveryStrategyWithAGraphSaysItIs) {
  for (const char* name : {"gpu", "dp", "ddp"}) {
    const StrategyInfo& info = strategy_registry().at(name);
    EXPECT_TRUE(promised(info, Params(info.params, {{"graph", "on"}}, name)).recorded) << name;
    EXPECT_FALSE(promised(info, Params(info.params, {}, name)).recorded) << name;
  }
}

}  // namespace
}  // namespace dpbench
