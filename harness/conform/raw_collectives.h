// The backend by itself, without a strategy: collectives of whole numbers, which no order of summation can round.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/suite.h"

namespace dpbench {

inline const std::vector<std::string> raw_collective_checks = {"allreduce-exact", "broadcast-exact", "allgather-exact",
                                                               "reduce-scatter-exact"};

// Only on the workload that is about exactness, for they say nothing of the strategy. Collective over group and store;
// the rows are rank 0's. `key` is used once.
void judge_raw_collectives(const CheckRequest& request, const std::string& key, Rows& rows);

}  // namespace dpbench
