// Finds mismatches between the latest collectives of the ranks. Some backends (Gloo, NCCL) do not detect mismatched
// collectives.
#pragma once

#include <string>
#include <vector>

#include "harness/front/launch/rank_group.h"

namespace dpbench {

// Formats a list of ranks, for example "rank 0, 2"; a long list is shortened to "62 ranks".
std::string listed_ranks(const std::vector<std::string>& names);

// Returns a description of the first mismatch between the ranks' collectives, for example "ranks call different
// collectives (#7): rank 0 allreduce of 12 Float (sum), rank 1 broadcast of 3 Float with root 0". Empty if no mismatch
// is known. `names` has the number and host of each rank.
std::string different_calls(const std::vector<const RankState*>& states, const std::vector<std::string>& names);

// Returns the rank's collective with this number in parentheses, for example " (allreduce of 12 Float (sum))"; empty if
// the rank no longer remembers it.
std::string describe_call(const RankState& state, int64_t number);

}  // namespace dpbench
