// The agent: a launched dpbench process other than rank 0. It runs its rank's worker on rank 0's orders.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/launch/outside/placement.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

// Returns the run's exit code as sent by rank 0; 3 if rank 0 is gone.
int run_agent(const MeasuringOptions& options, const Placement& placement);

// Returns the message that introduces this rank and its host to rank 0. The ranks of a host share `directory`.
Json hello_of(const Placement& placement, const std::string& directory);

// Returns an identifier of the host that is unique even if two hosts have the same name.
std::string node_of(const Placement& placement);

// Returns the cores to divide among the ranks of this host; empty if the launcher has bound each rank to its own.
std::vector<int> cores_to_share();

}  // namespace dpbench
