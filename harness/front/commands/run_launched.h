// Runs a command in a dpbench process that an outside launcher (torchrun, mpirun, srun) has started as one of its
// ranks.
#pragma once

#include <functional>

#include "harness/front/cli/options.h"
#include "harness/front/launch/outside/placement.h"

namespace dpbench {

class World;

// On rank 0, calls `measure`; other ranks follow rank 0's orders. Returns the same exit code on all ranks, but with
// --dry-run the other ranks do nothing and return 0. Sets the launcher's ranks and hosts in `options`.
int run_launched(MeasuringOptions& options, const Placement& placement, const std::function<int(World*)>& measure);

}  // namespace dpbench
