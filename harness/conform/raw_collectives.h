// Checks of a communication backend without a strategy: collectives of integers, which are exact in any order of
// summation.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/suite.h"

namespace dpbench {

inline const std::vector<std::string> raw_collective_checks = {"allreduce-exact", "broadcast-exact", "allgather-exact",
                                                               "reduce-scatter-exact"};

// Runs the backend's checks and adds their result rows on rank 0. Every rank must call it. The suite calls it only with
// the exact probe (a small test model), because the result does not depend on the workload. `key` must be unique per
// call.
void judge_raw_collectives(const CheckRequest& request, const std::string& key, Rows& rows);

}  // namespace dpbench
