// RankState: the progress of a rank. Agents (dpbench processes of the other ranks) send it to rank 0 as JSON.
#include <gtest/gtest.h>

#include "harness/front/launch/outside/rank_state.h"

namespace dpbench {
namespace {

const RankState kState{.step = 5,
                       .beat = 7,
                       .stopped = true,
                       .collectives = 9,
                       .place = "step 1 of scenario even",
                       .calls = {{9, ~uint64_t{0}, "barrier", 4}}};

TEST(RankState, SurvivesConversionToJsonAndBack) {
  const Json sent = parse_json(to_json(kState).dump(), "a state");
  EXPECT_EQ(rank_state_from_json(sent), kState);
}

TEST(RankState, AcceptsJsonArraysThatLackTheLastFields) {
  EXPECT_EQ(rank_state_from_json({5, 7, true}), (RankState{.step = 5, .beat = 7, .stopped = true}));
  EXPECT_EQ(rank_state_from_json({5, 7, true, 9}),
            (RankState{.step = 5, .beat = 7, .stopped = true, .collectives = 9}));
}

// A rank that blocks at the start of a collective changes nothing but its call log. So operator== must compare the log.
TEST(RankState, DiffersFromAnotherIfOnlyTheirLogsOfCollectivesDiffer) {
  RankState next = kState;
  next.calls.push_back({10, 1, "barrier"});
  EXPECT_NE(next, kState);
}

}  // namespace
}  // namespace dpbench
