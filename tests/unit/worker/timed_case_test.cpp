// Tests when a timed case calls the accessors of its strategy.
#include "harness/worker/measure/timed_case.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/around.h"

namespace dpbench {
namespace {

// A strategy that counts its steps between calls of parameters().
class CountsSteps : public Around {
 public:
  static inline std::vector<int64_t> between_calls;  // numbers of steps between two calls, without zeros

  explicit CountsSteps(const Setup& setup) : Around(with_defaults("cpu", setup)) { between_calls.clear(); }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    ++steps_;
    return inner_->step(step, micro, phases);
  }
  NamedTensors parameters() override {
    if (steps_ > 0) between_calls.push_back(steps_);
    steps_ = 0;
    return inner_->parameters();
  }

 private:
  int64_t steps_ = 0;
};

const RegisterStrategy counts_steps{{.name = "counts-steps",
                                     .summary = "counts steps between calls of parameters()",
                                     .parallelism = Parallelism::single,
                                     .make = make<CountsSteps>}};

TEST(ATimedCase, CallsAccessorsAtRandomBetweenTheUntimedStepsBeforeABlock) {
  const Sampling sampling{.warmup = 4, .samples = 40, .steps = 10};
  CaseSpec spec;
  spec.strategy = "counts-steps";
  spec.workload = "random-linear";
  spec.scaling = Scaling::strong;
  spec.batch = 10;
  Variables alone;
  alone.backend = "none";
  alone.device = Device::cpu;
  const Group group(alone);
  Pulse pulse("", 0);
  TimedCase timed(spec, sampling, group, pulse, "");
  for (int block = 0; block < sampling.samples; ++block) timed.block(sampling);
  // Two untimed steps precede each block.
  std::set<int64_t> before_blocks;
  const auto& steps = CountsSteps::between_calls;
  for (size_t i = 1; i < steps.size(); ++i)
    if (steps[i] == sampling.steps) before_blocks.insert(steps[i - 1]);
  EXPECT_EQ(before_blocks, (std::set<int64_t>{1, 2}));
}

}  // namespace
}  // namespace dpbench
