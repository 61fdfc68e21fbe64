// A measurement in a process that an outside launcher has started, one of several with the same command line.
#pragma once

#include <functional>

#include "harness/front/cli/options.h"
#include "harness/front/launch/outside/placement.h"

namespace dpbench {

class World;

// Rank 0 measures, with the others' workers if there is more than one rank; the others do what it says. All return the
// same exit code. Changes the options to what the launcher has started.
int run_launched(MeasuringOptions& options, const Placement& placement, const std::function<int(World*)>& measure);

}  // namespace dpbench
