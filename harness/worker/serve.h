// The worker's main loop: joins the process group, then executes the front's commands until "quit".
#pragma once

#include "harness/worker/rank/variables.h"

namespace dpbench {

// Returns the exit code: 0 after "quit", 3 after a failed case. A failed case leaves the process group unusable.
int serve(const Variables& variables);

}  // namespace dpbench
