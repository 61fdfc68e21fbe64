// The agent: a dpbench process that an outside launcher (torchrun, mpirun, srun) started as a rank other than 0. It
// runs its rank's worker process on rank 0's orders.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/launch/outside/placement.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

// Runs the agent. Returns the exit code that rank 0 sends at the end of the run, or 128 + N if signal N ended the
// agent. Throws std::runtime_error if rank 0 is gone.
int run_agent(const MeasuringOptions& options, const Placement& placement);

// Returns the "hello" message that describes this rank and its host to rank 0. `directory` is the private directory
// that the ranks of this host share.
Json hello_of(const Placement& placement, const std::string& directory);

// Returns an identifier of this host. It stays unique even if two hosts have the same name.
std::string node_of(const Placement& placement);

// Returns the cores to divide among the ranks of this host; empty if the launcher has already bound each rank to its
// own cores.
std::vector<int> cores_to_share();

}  // namespace dpbench
