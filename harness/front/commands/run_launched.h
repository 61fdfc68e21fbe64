// Runs a measurement in a process that an outside launcher has started.
#pragma once

#include <functional>

#include "harness/front/cli/options.h"
#include "harness/front/launch/outside/placement.h"

namespace dpbench {

class World;

// Rank 0 measures and the other ranks follow its orders. All return the same exit code. Sets the options to the ranks
// that the launcher has started.
int run_launched(MeasuringOptions& options, const Placement& placement, const std::function<int(World*)>& measure);

}  // namespace dpbench
