// Tests the number of audits of a launch and their steps, on launches with a simulated clock.
#include "harness/worker/measure/audit/audit_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace dpbench {
namespace {

constexpr uint64_t seeds = 200;

// A launch of timed blocks, in which an audit of n steps takes first_step_s + (n - 1) * more_step_s.
struct Simulated {
  int64_t blocks = 10, block_steps = 100;
  double step_s = 1e-3, first_step_s = 20e-3, more_step_s = 5e-3;
  bool single_steps = false;
  bool always = false;  // the last steps are always audited
};

struct Ended {
  std::vector<int64_t> between;  // number of steps of each audit between two blocks
  std::vector<int64_t> before;   // for each audit between two blocks: the number of the block that follows
  int64_t last = 0;              // number of steps of the last audit; 0: there was none
  double share = 0;              // share of the launch's time that its audits took
};

Ended launched(const Simulated& launch, uint64_t seed) {
  AuditPlan plan({.blocks = launch.blocks, .single_steps = launch.single_steps}, seed);
  double clock_s = 0;
  const auto audit = [&](int64_t steps) {
    const double took_s = launch.first_step_s + static_cast<double>(steps - 1) * launch.more_step_s;
    clock_s += took_s;
    plan.took(steps, took_s);
  };
  Ended ended;
  for (int64_t block = 0; block < launch.blocks; ++block) {
    const int64_t steps = plan.before_block(launch.block_steps, launch.step_s, clock_s);
    if (steps > 0) {
      ended.between.push_back(steps);
      ended.before.push_back(block);
      audit(steps);
    }
    clock_s += static_cast<double>(launch.block_steps) * launch.step_s;
  }
  ended.last = plan.at_end(launch.block_steps, clock_s, launch.always);
  if (ended.last > 0) audit(ended.last);
  ended.share = plan.spent_s() / clock_s;
  return ended;
}

TEST(AuditsOfALaunch, TakeATenthOfTheLaunchsTimeExceptForTheLongerOneAtTheEnd) {
  for (const int64_t blocks : {10, 100, 1000}) {
    int64_t over = 0;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      const double share = launched({.blocks = blocks}, seed).share;
      EXPECT_LE(share, 0.401) << seed;
      over += share > 0.101;
    }
    EXPECT_LE(over, seeds / 3) << blocks;
  }
}

// One launch of four may spend four times the share.
TEST(AuditsOfALaunch, TakeAtMostTheirShareOfTheTimeOnAverage) {
  for (const int64_t blocks : {1, 3, 10, 100, 1000}) {
    double sum = 0;
    for (uint64_t seed = 1; seed <= 5 * seeds; ++seed)
      sum += launched({.blocks = blocks, .block_steps = 10, .first_step_s = 7e-3, .more_step_s = 3.5e-3}, seed).share;
    EXPECT_LE(sum, (0.75 + 0.25 * 4) * AuditPlan::share_of_time * 5 * seeds) << blocks;
    EXPECT_GE(sum, 0.02 * 5 * seeds) << blocks;
  }
}

// A strategy that is right only in the first steps after a call of an accessor.
TEST(AuditsOfALaunch, OfTenBlocksAreLongerThanFiveStepsInAboutAQuarterOfTheLaunches) {
  int64_t longer = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const Ended ended = launched({.block_steps = 25, .first_step_s = 7e-3, .more_step_s = 3.5e-3}, seed);
    longer += ended.last > AuditPlan::most_last;
    EXPECT_LE(ended.share, 0.401) << seed;
  }
  EXPECT_GE(longer, seeds / 8);
  EXPECT_LE(longer, seeds / 2);
}

TEST(AuditsOfALaunch, AreAtLeastTwoIfTheyFitIntoATenthOfTheExpectedTime) {
  std::set<int64_t> first;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const Ended ended = launched({.blocks = 4, .first_step_s = 10e-3, .more_step_s = 1e-3}, seed);
    EXPECT_GE(ended.between.size(), 1U) << seed;
    EXPECT_GE(ended.last, AuditPlan::least_last) << seed;
    EXPECT_LE(ended.share, 0.401) << seed;
    first.insert(ended.before.empty() ? -1 : ended.before.front());
  }
  EXPECT_GE(first.size(), 3U) << "the block is drawn at random";
}

TEST(AuditsOfALaunch, AreLessFrequentIfTheyTakeLongButAlwaysEndACasesLastLaunch) {
  // An audit of three steps takes longer than all blocks.
  int64_t last = 0;
  std::set<int64_t> steps, steps_if_always;
  for (uint64_t seed = 1; seed <= 5 * seeds; ++seed) {
    Simulated launch{.blocks = 10, .block_steps = 1, .step_s = 1, .first_step_s = 7, .more_step_s = 3.5};
    const Ended ended = launched(launch, seed);
    EXPECT_EQ(ended.between.size(), 0U) << seed;
    last += ended.last > 0;
    steps.insert(ended.last);
    launch.always = true;
    steps_if_always.insert(launched(launch, seed).last);
  }
  EXPECT_GT(last, seeds / 10);
  EXPECT_LT(last, 2 * seeds);
  EXPECT_EQ(steps, (std::set<int64_t>{0, 3, 4, 5}));
  EXPECT_EQ(steps_if_always, (std::set<int64_t>{1, 3, 4, 5}));
}

TEST(AuditsOfALaunch, EndWithAnAuditOfARandomNumberOfSteps) {
  std::set<int64_t> cheap;
  for (uint64_t seed = 1; seed <= seeds; ++seed)
    cheap.insert(launched({.blocks = 100, .first_step_s = 10e-3, .more_step_s = 1e-3}, seed).last);
  EXPECT_GT(*cheap.rbegin(), 20);
}

TEST(AuditsOfALaunch, HaveEnoughStepsToShowMistakesThatBeginSomeStepsAfterReadingTheParameters) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const Ended ended = launched({.blocks = 100, .first_step_s = 5e-3, .more_step_s = 1e-3}, seed);
    EXPECT_GE(ended.last, 3) << "a strategy may be right in the first two steps after a call of an accessor";
    EXPECT_GT(std::max(ended.last, *std::ranges::max_element(ended.between)), 8) << seed;
  }
}

TEST(AuditsOfALaunch, TakeOneStepEachIfTheModelIsLarge) {
  const Ended ended = launched({.blocks = 1000, .single_steps = true}, 1);
  EXPECT_EQ(ended.last, 1);
  EXPECT_GT(ended.between.size(), 10U);
  for (const int64_t steps : ended.between) EXPECT_EQ(steps, 1);
}

}  // namespace
}  // namespace dpbench
