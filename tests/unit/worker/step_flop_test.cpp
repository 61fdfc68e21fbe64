// FLOP counts of strategies that replay recorded steps. A replay calls no operations, so it cannot be counted. Fake
// strategies replace the GPU.
#include <map>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/worker/measure/profile_case.h"
#include "tests/support/around.h"

namespace dpbench {
namespace {

// A strategy that pretends to replay steps. For each batch size, the first step runs eagerly, the second is recorded
// (which calls all operations once more), and later steps call no operations.
class Replaying : public Around {
 public:
  explicit Replaying(const Setup& setup)
      : Around(with_defaults("cpu", setup)), records_first_step_(setup.params.flag("recorded")) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const bool first = seen_.insert(micro[0].samples()).second;
    if (first && !records_first_step_) return inner_->step(step, micro, phases);
    Phases none;
    if (recorded_.insert(micro[0].samples()).second) inner_->step(step, micro, none);
    phases.enter(Phase::graph);
    return {};
  }

 private:
  bool records_first_step_;
  std::set<int64_t> seen_, recorded_;
};

const RegisterStrategy replaying{{.name = "replaying",
                                  .summary = "pretends to replay recorded steps",
                                  .parallelism = Parallelism::single,
                                  .params = {{"recorded", "off", "on: record the first step, too"}},
                                  .make = make<Replaying>}};

// Imitates a strategy that replays forward and backward passes as CUDA graphs, whose operations the counter cannot see.
// For each batch size, the first step runs all operations, the second all but those of its first micro-batch, as if
// this one were replayed, and later steps none.
class ReplayingPasses : public Around {
 public:
  explicit ReplayingPasses(const Setup& setup) : Around(with_defaults("cpu", setup)) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const int64_t taken = taken_[micro[0].samples()]++;
    return taken > 1 ? StepResult{} : inner_->step(step, taken ? micro.subspan(1) : micro, phases);
  }

 private:
  std::map<int64_t, int64_t> taken_;
};

const RegisterStrategy replaying_passes{{.name = "replaying-passes",
                                         .summary = "pretends to replay its passes",
                                         .parallelism = Parallelism::single,
                                         .make = make<ReplayingPasses>}};

// Returns the FLOP per step that a profile of random-linear reports, or nullopt if they are unknown. With its 100
// samples and strong scaling, the last batch may be short.
std::optional<int64_t> flop_of(const std::string& strategy, int64_t batch,
                               const std::map<std::string, std::string>& params = {}, int64_t accumulate = 1) {
  const StrategyInfo& info = strategy_registry().at(strategy);
  const auto workload = workload_registry().at("random-linear").make({});
  CaseSpec spec;
  spec.strategy = strategy;
  spec.workload = "random-linear";
  spec.scaling = Scaling::strong;
  spec.batch = batch;
  spec.accumulate = accumulate;
  const Setup setup{.workload = *workload,
                    .devices = {at::Device(at::kCPU)},
                    .params = Params(info.params, params, strategy),
                    .accumulate = accumulate,
                    .clip_norm = {}};
  StepSource source(*workload, spec, info, 0);
  Variables alone;
  alone.backend = "none";
  alone.device = Device::cpu;
  const Group group(alone);
  Pulse pulse("", 0);
  RankRecord record;
  record.steps_per_sample = 4;
  profile_case(spec, setup, source, Sampling{}, group, pulse, record);
  return record.profile->flop;
}

constexpr int64_t flop_per_sample = 2 * (5 * 2) * 2;  // FLOP of forward pass and weight gradient of a 5 x 2 layer

TEST(StepFlop, FlopOfAReplayedStepAreThoseOfAnEagerStepOfTheSameBatchSize) {
  for (const char* strategy : {"cpu", "replaying"}) {
    EXPECT_EQ(flop_of(strategy, 30), (3 * 30 + 10) * flop_per_sample / 4)
        << strategy << ": batches of 30, 30, 30 and 10";
    EXPECT_EQ(flop_of(strategy, 50), 50 * flop_per_sample) << strategy;
    EXPECT_EQ(flop_of(strategy, 5), 5 * flop_per_sample) << strategy << ": counts one of 20 steps per epoch";
  }
}

TEST(StepFlop, FlopOfAStrategyThatReplaysPassesAreCountedInItsFirstStep) {
  for (const char* strategy : {"cpu", "replaying-passes"})
    EXPECT_EQ(flop_of(strategy, 50, {}, /*accumulate=*/2), 50 * flop_per_sample) << strategy;
}

TEST(StepFlop, FlopAreUnknownIfEveryStepIsRecordedOrReplayed) {
  EXPECT_EQ(flop_of("replaying", 30, {{"recorded", "on"}}), std::nullopt);
}

}  // namespace
}  // namespace dpbench
