// What a launched dpbench does that is not rank 0: its rank's worker lives and dies as rank 0 says.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/launch/outside/placement.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

// Returns the run's exit code, which rank 0 tells; 3 when rank 0 is gone.
int run_agent(const MeasuringOptions& options, const Placement& placement);

// What rank 0 is told of this rank and its host. directory: shared by the ranks of the host.
Json hello_of(const Placement& placement, const std::string& directory);

// The host's name, and what tells two that have the same name apart.
std::string node_of(const Placement& placement);

// Cores to share out among the ranks of this host; none when the launcher has bound each rank to its own.
std::vector<int> cores_to_share();

}  // namespace dpbench
