// The worker's main loop: joins the process group, then executes the commands of the front (the dpbench process) until
// "quit".
#pragma once

#include "harness/worker/rank/variables.h"

namespace dpbench {

// Runs the worker's main loop. Returns the exit code: 0 after "quit" or if the front has exited, 3 after an exception,
// which is reported to the front and leaves the process group unusable.
int serve(const Variables& variables);

}  // namespace dpbench
