// The life of a worker: meets the other ranks, does what the front asks, case after case.
#pragma once

#include "harness/worker/rank/variables.h"

namespace dpbench {

// Returns the exit code: 0 after "quit", 3 after a failed case (the group is of no more use).
int serve(const Variables& variables);

}  // namespace dpbench
