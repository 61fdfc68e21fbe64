// Tests the bounds on the change of parameters and optimizer state between two audits.
#include "harness/worker/measure/audit/motion.h"

#include <gtest/gtest.h>

#include <cmath>

#include <ATen/ATen.h>

#include "tests/support/contains.h"

namespace dpbench {
namespace {

constexpr double rate = 0.01;
constexpr int64_t steps_per_epoch = 3;

// Evidence of an audit of one step: a parameter before and after it, and the optimizer's count of steps after it.
Evidence audited(double before, double after, double count) {
  Evidence seen;
  seen.parameters = {{"w", at::full({4}, before)}};
  seen.state = {{"w.step", at::scalar_tensor(count - 1)}};
  seen.steps.push_back({.parameters = {{"w", at::full({4}, after)}}, .state = {{"w.step", at::scalar_tensor(count)}}});
  return seen;
}

class ChangeBetweenAudits : public testing::Test {
 protected:
  // Judges a second audit, which begins at step 20, on the change since the first audit, which ended before step 10
  // with parameters of 1.01.
  Deviation next(const Evidence& seen, OptimizerSpec::Kind kind = OptimizerSpec::Kind::adam) {
    Motion motion({.kind = kind, .learning_rate = rate}, steps_per_epoch);
    EXPECT_EQ(motion.since_last(9, audited(1, 1.01, 10)).error, 0);
    motion.remember(10, 1, audited(1, 1.01, 10));
    return motion.since_last(20, seen);
  }
};

TEST_F(ChangeBetweenAudits, OfACorrectOptimizerPasses) { EXPECT_EQ(next(audited(1.05, 1.06, 21)).where, ""); }

TEST_F(ChangeBetweenAudits, FailsIfNoParameterChanged) {
  EXPECT_TRUE(mentions(next(audited(1.01, 1.02, 21)).where, {"no parameter", "10 steps", "step 20"}));
}

TEST_F(ChangeBetweenAudits, ConvergedParametersMayStayUnchanged) {
  EXPECT_EQ(next(audited(1.01, 1.01, 21)).where, "");
  EXPECT_EQ(next(audited(1.01, 1.01 + 1e-7, 21)).where, "");
  EXPECT_NE(next(audited(1.01, 1.01 + 1e-5, 21)).where, "");
}

// The batches repeat, so converged parameters can be the same after each epoch although every step moves them.
TEST_F(ChangeBetweenAudits, ParametersMayBeEqualAfterAWholeNumberOfEpochs) {
  const auto where_of = [](int64_t steps_per_epoch) {
    Motion motion({.learning_rate = rate}, steps_per_epoch);
    motion.remember(10, 1, audited(1, 1.01, 10));
    return motion.since_last(20, audited(1.01, 1.02, 21)).where;
  };
  EXPECT_EQ(where_of(5), "");
  EXPECT_NE(where_of(4), "") << "not whole epochs";
  EXPECT_NE(where_of(1), "") << "each step is an epoch, so the audited step would move nothing either";
}

TEST_F(ChangeBetweenAudits, ByMoreThanAdamCanMoveAParameterFails) {
  EXPECT_EQ(next(audited(1.70, 1.71, 21)).where, "");
  const Deviation far = next(audited(1.80, 1.81, 21));
  EXPECT_TRUE(mentions_in_order(far.where, {"parameter w", "0.79"}));
  EXPECT_NE(far.likely.find("learning rate"), std::string::npos);
}

// Gradients that grow from step to step let Adam move an element by more than the learning rate.
TEST_F(ChangeBetweenAudits, IsWithinTheBoundOfAdamEvenForTheWorstGradients) {
  const OptimizerSpec spec{.kind = OptimizerSpec::Kind::adam, .learning_rate = rate, .beta2 = 0.95};
  double mean = 0, square = 0, value = 0, gradient = 1, before = 0;
  constexpr int steps = 400, last = 20;
  for (int step = 1; step <= steps; ++step, gradient *= spec.beta2 / spec.beta1) {
    mean = spec.beta1 * mean + (1 - spec.beta1) * gradient;
    square = spec.beta2 * square + (1 - spec.beta2) * gradient * gradient;
    const double update =
        mean / (1 - std::pow(spec.beta1, step)) / std::sqrt(square / (1 - std::pow(spec.beta2, step)));
    if (step == steps - last + 1) before = value;
    value += rate * update;
  }
  const double moved = value - before;
  EXPECT_GT(moved, 1.16 * rate * last) << "beyond the learning rate";
  const auto where_of = [&](double distance) {
    Motion motion(spec, steps_per_epoch);
    motion.remember(10, 1, audited(1, 1, 10));
    return motion.since_last(10 + last, audited(1 + distance, 1 + distance, 11 + last)).where;
  };
  EXPECT_EQ(where_of(moved), "");
  EXPECT_NE(where_of(1.05 * moved), "");
}

TEST_F(ChangeBetweenAudits, UnderSgdIsLimitedByTheLargestChangeInAnAuditedStep) {
  EXPECT_EQ(next(audited(90, 91, 21), OptimizerSpec::Kind::sgd).where, "");
  EXPECT_NE(next(audited(110, 111, 21), OptimizerSpec::Kind::sgd).where, "");
}

TEST_F(ChangeBetweenAudits, WeightDecayRaisesTheLargestAllowedChange) {
  const auto likely_of = [](double decay, double before) {
    Motion motion({.kind = OptimizerSpec::Kind::adam, .learning_rate = rate, .weight_decay = decay}, steps_per_epoch);
    motion.remember(10, 1, audited(100, 100.01, 10));
    return motion.since_last(20, audited(before, before + 0.01, 21)).likely;
  };
  EXPECT_EQ(likely_of(0.5, 95.5), "");
  EXPECT_NE(likely_of(0.5, 94), "");
  EXPECT_NE(likely_of(0, 95.5), "");
}

TEST_F(ChangeBetweenAudits, HasABoundThatShrinksWithTheLearningRateSchedule) {
  const auto likely_of = [](int64_t decay_steps, double before) {
    Motion motion({.learning_rate = rate, .decay_steps = decay_steps}, steps_per_epoch);
    motion.remember(10, 1, audited(1, 1.01, 10));
    return motion.since_last(20, audited(before, before + 0.01, 21)).likely;
  };
  EXPECT_EQ(likely_of(0, 100), "");
  EXPECT_NE(likely_of(20, 100), "") << "the rate falls from half its first value to zero";
  EXPECT_NE(likely_of(0, 1.01), "") << "nothing moved";
  EXPECT_EQ(likely_of(10, 1.01), "") << "the rate is zero from step 10 on";
}

TEST_F(ChangeBetweenAudits, FailsIfTheOptimizerCountedTooManySteps) {
  EXPECT_TRUE(
      mentions_in_order(next(audited(1.05, 1.06, 31)).where, {"optimizer", "20 steps", "parameter w", "10 steps"}));
}

TEST_F(ChangeBetweenAudits, FailsIfTheOptimizerLeftOutSteps) {
  EXPECT_TRUE(mentions_in_order(next(audited(1.05, 1.06, 20)).where, {"optimizer", " 9 steps", "10 steps"}));
  Motion skips({.kind = OptimizerSpec::Kind::adam, .learning_rate = rate}, steps_per_epoch, /*may_skip=*/true);
  skips.remember(10, 1, audited(1, 1.01, 10));
  EXPECT_EQ(skips.since_last(20, audited(1.05, 1.06, 20)).where, "") << "steps with a non-finite gradient";
}

TEST_F(ChangeBetweenAudits, OfAParameterWithoutAGradientInSomeStepsPasses) {
  const auto both = [](double before, double after, double count, double branch_count) {
    Evidence seen = audited(before, after, count);
    StepEvidence& last = seen.steps.back();
    seen.parameters.emplace_back("branch", at::ones({4}));
    last.parameters.emplace_back("branch", at::ones({4}));
    seen.state.emplace_back("branch.step", at::scalar_tensor(branch_count));
    last.state.emplace_back("branch.step", at::scalar_tensor(branch_count));
    return seen;
  };
  Motion motion({.kind = OptimizerSpec::Kind::adam, .learning_rate = rate}, steps_per_epoch);
  motion.remember(10, 1, both(1, 1.01, 10, 3));
  EXPECT_EQ(motion.since_last(20, both(1.05, 1.06, 21, 7)).where, "");
}

// The parameter is 1 before step 5 and 1.05 before step 10, both in the warm-up. Judges an audit that begins at
// step 20.
Deviation since_the_warm_up(const Evidence& seen, OptimizerSpec::Kind kind) {
  Motion motion({.kind = kind, .learning_rate = rate}, steps_per_epoch);
  const auto look = [&](int64_t step, double value) {
    motion.look(step, {{"w", at::full({4}, value)}}, {{"w.step", at::scalar_tensor(step)}});
  };
  look(5, 1);
  look(10, 1.05);
  return motion.since_last(20, seen);
}

TEST(ChangeSinceTheWarmUp, OfParametersMustBeWithinBoundsAtTheFirstAudit) {
  for (const auto kind : {OptimizerSpec::Kind::adam, OptimizerSpec::Kind::sgd}) {
    EXPECT_EQ(since_the_warm_up(audited(1.1, 1.11, 21), kind).where, "");
    EXPECT_TRUE(mentions(since_the_warm_up(audited(1.05, 1.06, 21), kind).where, {"no parameter", "10 steps"}));
    EXPECT_TRUE(mentions(since_the_warm_up(audited(200, 200.01, 21), kind).where, {"parameter w", "10 steps"}));
    EXPECT_TRUE(mentions_in_order(since_the_warm_up(audited(1.1, 1.11, 16), kind).where,
                                  {"optimizer", " 5 steps", "10 steps"}));
  }
}

TEST(ChangeSinceTheWarmUp, HasNoBoundUnderSgdIfNoParameterMovedInTheWarmUp) {
  Motion motion({.learning_rate = rate}, steps_per_epoch);
  for (const int64_t step : {5, 10}) motion.look(step, {{"w", at::ones({4})}}, {});
  EXPECT_EQ(motion.since_last(20, audited(200, 200.01, 21)).where, "");
}

}  // namespace
}  // namespace dpbench
