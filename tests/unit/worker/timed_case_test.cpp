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

TEST(ATimedCase, RunsADrawnNumberOfUntimedStepsBetweenALookAndABlock) {
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
  std::set<int64_t> untimed;
  for (const int64_t steps : CountsSteps::between_calls) untimed.insert(steps - sampling.steps);
  EXPECT_TRUE(untimed.contains(1) && untimed.contains(2));
}

}  // namespace
}  // namespace dpbench
