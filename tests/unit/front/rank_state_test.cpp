// RankState, as agents send it to rank 0.
#include <gtest/gtest.h>

#include "harness/front/launch/outside/rank_state.h"

namespace dpbench {
namespace {

const RankState kState{
    .step = 5, .beat = 7, .stopped = true, .collectives = 9, .calls = {{9, ~uint64_t{0}, "barrier"}}};

TEST(RankState, SurvivesARoundTrip) {
  const Json sent = parse_json(to_json(kState).dump(), "a state");
  EXPECT_EQ(rank_state_from_json(sent), kState);
}

TEST(RankState, AcceptsTheShorterFormOfOlderAgents) {
  EXPECT_EQ(rank_state_from_json({5, 7, true}), (RankState{.step = 5, .beat = 7, .stopped = true}));
  EXPECT_EQ(rank_state_from_json({5, 7, true, 9}),
            (RankState{.step = 5, .beat = 7, .stopped = true, .collectives = 9}));
}

// A rank that blocks at the start of a call has changed nothing but its call log.
TEST(RankState, DiffersAfterOneMoreCall) {
  RankState next = kState;
  next.calls.push_back({10, 1, "barrier"});
  EXPECT_NE(next, kState);
}

}  // namespace
}  // namespace dpbench
