// Strategies that record their steps (as CUDA graphs) must finish recording before steps are timed. A fake strategy
// replaces the GPU.
#include <map>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/worker/measure/profile_case.h"
#include "harness/worker/measure/timed_case.h"
#include "tests/support/around.h"

namespace dpbench {
namespace {

enum class Mode { eager, recorded, replayed };

struct Call {
  int64_t step, samples;
  Mode mode;
};

// A strategy that pretends to record the fourth step of each batch size, the latest step allowed, and to replay later
// steps.
class FakeRecorder : public Around {
 public:
  static inline std::vector<Call> calls;  // steps taken by the FakeRecorder that was made last

  explicit FakeRecorder(const Setup& setup)
      : Around(with_defaults("cpu", setup)), records_(setup.params.flag("graph")) {
    calls.clear();
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const int64_t samples = micro[0].samples();
    const int count = ++counts_[samples];
    calls.push_back({step, samples,
                     !records_ || count < 4 ? Mode::eager
                     : count == 4           ? Mode::recorded
                                            : Mode::replayed});
    return inner_->step(step, micro, phases);
  }

 private:
  bool records_;
  std::map<int64_t, int> counts_;
};

const RegisterStrategy fake_recorder{
    {.name = "fake-recorder",
     .summary = "pretends to record its steps",
     .parallelism = Parallelism::single,
     .params = {{"graph", "off", "on: record the fourth step of each shape"}},
     .make = make<FakeRecorder>,
     .promise = [](StrategyInfo& info, const Params& params) { info.recorded = params.flag("graph"); }}};

// Two untimed steps precede each timed block of four steps, to refill the caches.
const Sampling quick{.warmup = 5, .samples = 2, .steps = 4, .audit = false};

// Returns a case of random-linear, which has 100 samples.
CaseSpec case_of(int64_t batch, const char* graph) {
  CaseSpec spec;
  spec.strategy = "fake-recorder";
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
    TimedCase timed(spec, quick, group_, pulse_, "");
    for (int block = 0; block < quick.samples; ++block) timed.block(quick);
  }
  dpbench::Setup setup(const CaseSpec& spec) const {
    return {.workload = *workload_,
            .devices = {at::Device(at::kCPU)},
            .params = Params(strategy_registry().at(spec.strategy).params, spec.params, spec.strategy),
            .clip_norm = {}};
  }
  static void expect_replayed(size_t last) {
    const auto& calls = FakeRecorder::calls;
    ASSERT_GE(calls.size(), last);
    for (size_t i = calls.size() - last; i < calls.size(); ++i)
      EXPECT_EQ(calls[i].mode, Mode::replayed)
          << "call " << i << " of " << calls.size() << ", " << calls[i].samples << " samples";
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

TEST_F(RecordingSteps, RunBeforeTheTimedSteps) {
  timed(case_of(30, "on"));
  const auto& calls = FakeRecorder::calls;
  ASSERT_EQ(calls.size(), 5U + 2 * 4 + 2 * (2 + 4)) << "four more steps for each of the batch sizes 30 and 10";
  // The second half of the warm-up sets the number of steps per block, so it must be replayed like timed steps.
  expect_replayed(3 + 2 * (2 + 4));
  EXPECT_EQ(calls[calls.size() - 12].step, 5) << "blocks start at the same step as without recording";
}

TEST_F(RecordingSteps, CoverEachBatchSizeWithoutRunningAWholeEpoch) {
  timed(case_of(3, "on"));
  EXPECT_EQ(FakeRecorder::calls.size(), 5U + 2 * 4 + 2 * (2 + 4)) << "one of 34 steps has 1 sample";
  timed(case_of(5, "on"));
  EXPECT_EQ(FakeRecorder::calls.size(), 5U + 4 + 2 * (2 + 4)) << "all batches have the same size";
}

TEST_F(RecordingSteps, AreSkippedIfTheStrategyDoesNotRecordItsSteps) {
  timed(case_of(30, "off"));
  EXPECT_EQ(FakeRecorder::calls.size(), 5U + 2 * (2 + 4));
}

TEST_F(RecordingSteps, RunBeforeTheProfiledSteps) {
  const CaseSpec spec = case_of(30, "on");
  StepSource source(*workload_, spec, strategy_registry().at(spec.strategy), 0);
  RankRecord record;
  record.steps_per_sample = 4;
  profile_case(spec, setup(spec), source, quick, group_, pulse_, record);
  expect_replayed(static_cast<size_t>(record.profile->steps));
}

TEST(RecordedSteps, AreDeclaredByStrategiesWithGraphOn) {
  for (const char* name : {"gpu", "dp", "ddp"}) {
    const StrategyInfo& info = strategy_registry().at(name);
    EXPECT_TRUE(promised(info, Params(info.params, {{"graph", "on"}}, name)).recorded) << name;
    EXPECT_FALSE(promised(info, Params(info.params, {}, name)).recorded) << name;
  }
}

}  // namespace
}  // namespace dpbench
