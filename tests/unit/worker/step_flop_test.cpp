// Operations of steps that are replayed, which call none. As on a GPU: here a strategy pretends.
#include <map>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/worker/measure/profile_case.h"
#include "tests/unit/around.h"

namespace dpbench {
namespace {

// The first step of so many rows runs as it is, the second is recorded, which calls all of it once more; then nothing
// is called.
class Replaying : public Around {
 public:
  explicit Replaying(const Setup& setup)
      : Around(with_defaults("cpu", setup)), never_as_it_is_(setup.params.flag("recorded")) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const bool first = met_.insert(micro[0].rows()).second;
    if (first && !never_as_it_is_) return inner_->step(step, micro, phases);
    Phases none;
    if (recorded_.insert(micro[0].rows()).second) inner_->step(step, micro, none);
    phases.enter(Phase::graph);
    return {};
  }

 private:
  bool never_as_it_is_;
  std::set<int64_t> met_, recorded_;
};

const RegisterStrategy replaying{{.name = "replaying",
                                  .summary = "pretends to replay what it recorded",
                                  .parallelism = Parallelism::single,
                                  .params = {{"recorded", "off", "on: the first step as well"}},
                                  .make = make<Replaying>}};

// Its passes are replayed, not its step: of the second step of so many rows one micro-batch is recorded, then nothing
// is called.
class ReplayingPasses : public Around {
 public:
  explicit ReplayingPasses(const Setup& setup) : Around(with_defaults("cpu", setup)) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const int64_t taken = taken_[micro[0].rows()]++;
    return taken > 1 ? StepResult{} : inner_->step(step, taken ? micro.subspan(1) : micro, phases);
  }

 private:
  std::map<int64_t, int64_t> taken_;
};

const RegisterStrategy replaying_passes{{.name = "replaying-passes",
                                         .summary = "pretends to replay its passes",
                                         .parallelism = Parallelism::single,
                                         .make = make<ReplayingPasses>}};

// Of a step of random-linear in batches of so many of its 100 rows, strong: the last one of an epoch may be short.
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
                    .group = {},
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

constexpr int64_t of_a_row = 2 * (5 * 2) * 2;  // forward and one gradient, of a layer of 5 x 2

TEST(StepFlop, OfAReplayedStepAreThoseOfOneOfItsShapeThatRanAsItIs) {
  for (const char* strategy : {"cpu", "replaying"}) {
    EXPECT_EQ(flop_of(strategy, 30), (3 * 30 + 10) * of_a_row / 4) << strategy << ": 30, 30, 30 and 10 rows";
    EXPECT_EQ(flop_of(strategy, 50), 50 * of_a_row) << strategy;
    EXPECT_EQ(flop_of(strategy, 5), 5 * of_a_row) << strategy << ": an epoch of 20 steps, of which one is counted";
  }
}

TEST(StepFlop, AreThoseOfTheFirstStepWhereOnlyPassesAreReplayed) {
  for (const char* strategy : {"cpu", "replaying-passes"})
    EXPECT_EQ(flop_of(strategy, 50, {}, /*accumulate=*/2), 50 * of_a_row) << strategy;
}

TEST(StepFlop, OfWhatNeverRanAsItIsAreNotKnown) {
  EXPECT_EQ(flop_of("replaying", 30, {{"recorded", "on"}}), std::nullopt);
}

}  // namespace
}  // namespace dpbench
