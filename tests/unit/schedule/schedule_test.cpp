// Tests properties of all built-in schedules: they obey every rule, also after lower() has added transfers.
#include <gtest/gtest.h>

#include <algorithm>

#include "strategies/schedule/csv.h"
#include "strategies/schedule/lower.h"
#include "strategies/schedule/verify.h"
#include "tests/support/contains.h"
#include "tests/unit/schedule/cases.h"
#include "workloads/base/error.h"

namespace dpbench::pipeline {
namespace {

std::string first_fault(const Schedule& schedule) {
  const std::vector<Fault> faults = verify(schedule);
  return faults.empty() ? "" : text_of(faults.front());
}

class EveryScheduleFamily : public testing::TestWithParam<Family> {};

TEST_P(EveryScheduleFamily, ObeysEveryRuleWithAndWithoutTransfers) {
  const int sizes = for_each_size(GetParam(), [](const Request& request) {
    const Schedule compute = make_schedule(GetParam(), request);
    ASSERT_EQ(first_fault(compute), "") << text_of(request);
    const Schedule lowered = lower(compute);
    ASSERT_EQ(first_fault(lowered), "") << text_of(request);
    ASSERT_EQ(without_transfers(lowered).ranks, compute.ranks) << text_of(request);
  });
  EXPECT_GT(sizes, 0);
  RecordProperty("sizes", sizes);
}

// A receive that directly follows a computation is posted at least one computation before the computation that needs
// the received tensor. A receive that directly follows another transfer cannot be posted earlier.
TEST_P(EveryScheduleFamily, PostsAReceiveOneComputationAheadUnlessItFollowsATransfer) {
  int receives = 0;
  for_each_size(
      GetParam(),
      [&](const Request& request) {
        const Schedule lowered = lower(make_schedule(GetParam(), request));
        for (const auto& list : lowered.ranks)
          for (size_t i = 1; i < list.size(); ++i) {
            if (!is_receive(list[i].kind) || !is_compute(list[i - 1].kind)) continue;
            ++receives;
            const Action& next = *std::find_if(list.begin() + static_cast<std::ptrdiff_t>(i), list.end(),
                                               [](const Action& one) { return is_compute(one.kind); });
            ASSERT_FALSE(next.stage == list[i].stage && next.microbatch == list[i].microbatch)
                << text_of(request) << ", " << text_of(list[i]);
          }
      },
      8, 17);
  EXPECT_GT(receives, 20);
}

TEST(Lower, NeedsTwoReceiveBuffersPerChannelFor1f1bAsItPostsReceivesOneComputationAhead) {
  EXPECT_EQ(lower(make_schedule(*find_family("1f1b"), {.ranks = 4, .microbatches = 8})).receive_slots, 2);
}

// lower() orders sends and receives by simulated times. The order must be free of deadlocks for uneven times too.
TEST_P(EveryScheduleFamily, BreaksNoRuleIfTransfersAreOrderedForUnevenCosts) {
  const std::vector<Costs> costs = {{.forward = 3, .input_gradient = 5, .weight_gradient = 2, .link = {.latency = 4}},
                                    {.forward = 1. / 3, .input_gradient = 0.1, .weight_gradient = 0.7},
                                    {.bytes = 9, .link = {.latency = 0.5, .bytes_per_time = 2}}};
  for_each_size(
      GetParam(),
      [&](const Request& request) {
        for (const Costs& one : costs)
          ASSERT_EQ(first_fault(lower(make_schedule(GetParam(), request), one)), "") << text_of(request);
      },
      5, 12);
}

TEST_P(EveryScheduleFamily, BreaksNoRuleWithTiedParametersInTheFirstAndTheLastStage) {
  for_each_size(
      GetParam(),
      [](const Request& request) {
        Schedule schedule = make_schedule(GetParam(), request);
        const int last = schedule.stages_per_pipeline() - 1;
        if (last == 0) return;
        if (schedule.pipelines == 1)
          schedule.ties = {{0, last}};
        else
          schedule.ties.front() = {0, last, last + 1, 2 * last + 1};
        if (schedule.pipelines > 1) std::erase(schedule.ties, std::vector<int>{last, 2 * last + 1});
        ASSERT_EQ(first_fault(lower(schedule)), "") << text_of(request);
      },
      4, 9);
}

INSTANTIATE_TEST_SUITE_P(Schedules, EveryScheduleFamily, testing::ValuesIn(families()), [](const auto& given) {
  std::string name = given.param.name;
  std::erase(name, '-');
  return name;
});

TEST(ScheduleFamilies, RefuseUnsupportedNumbersOfRanksChunksAndMicroBatches) {
  const auto refused = [](const std::string& name, const Request& request, const std::string& needs) {
    try {
      make_schedule(*find_family(name), request);
      ADD_FAILURE() << name << " accepted " << text_of(request);
    } catch (const UsageError& error) {
      EXPECT_TRUE(mentions_in_order(error.what(), {name, needs, "not " + std::to_string(request.ranks)}));
    }
  };
  refused("1f1b", {4, 2, 8}, " 1 chunk ");
  refused("interleaved", {4, 1, 8}, "2 chunks");
  refused("zbv", {4, 3, 8}, " 2 chunks ");
  refused("dualpipe", {3, 1, 8}, " of ranks");
  refused("dualpipe", {4, 1, 9}, " of micro-batches");
  refused("dualpipe", {4, 1, 6}, "two micro-batches");
}

}  // namespace
}  // namespace dpbench::pipeline
