// What ranks say of their latest collectives, compared: some backends (Gloo, NCCL) do not notice that these differ.
#pragma once

#include <string>
#include <vector>

#include "harness/front/launch/rank_group.h"

namespace dpbench {

// As in "rank 0, 2", or "62 ranks".
std::string listed_ranks(const std::vector<std::string>& names);

// As in "ranks call different collectives (#7): rank 0 allreduce of 12 Float (sum), rank 1 broadcast of 3 Float with
// root 0"; empty where the ranks are not known to differ. names: of the ranks, with their hosts.
std::string different_calls(const std::vector<const RankState*>& states, const std::vector<std::string>& names);

// As in " (allreduce of 12 Float (sum))": the call of that number; empty where it is not known.
std::string call_in_words(const RankState& state, int64_t number);

}  // namespace dpbench
