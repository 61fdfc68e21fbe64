// A command in a process that an outside launcher has started, one of several with the same command line.
#pragma once

#include "harness/front/launched/placement.h"
#include "harness/front/options.h"

namespace dpbench {

// Rank 0 carries the command out, with the others' workers where it needs ranks; the others do what it says. All
// return the same exit code.
int run_launched(const Options& options, const Placement& placement, int (*command)(const Options&));

}  // namespace dpbench
