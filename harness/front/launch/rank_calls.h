// Compares the latest collectives of the ranks. Some backends (Gloo, NCCL) do not detect mismatched collectives.
#pragma once

#include <string>
#include <vector>

#include "harness/front/launch/rank_group.h"

namespace dpbench {

// Returns for example "rank 0, 2", or "62 ranks" if there are many.
std::string listed_ranks(const std::vector<std::string>& names);

// Returns for example "ranks call different collectives (#7): rank 0 allreduce of 12 Float (sum), rank 1 broadcast of 3
// Float with root 0"; empty if no mismatch is known. `names` has the number and host of each rank.
std::string different_calls(const std::vector<const RankState*>& states, const std::vector<std::string>& names);

// Returns the call with that number, for example " (allreduce of 12 Float (sum))"; empty if it is not known.
std::string describe_call(const RankState& state, int64_t number);

}  // namespace dpbench
