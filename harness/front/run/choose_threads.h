// Chooses the number of threads per replica from the duration of a step.
#pragma once

#include "harness/front/run/launcher.h"
#include "harness/front/run/prepare.h"

namespace dpbench {

// Sets one thread for the planned CPU cases whose step takes less than a millisecond on one thread: handing work to
// other threads would cost more than it gains, and on a busy machine each hand-over may wait for a core. Measures the
// baseline's step for that. Does nothing if the user chose --threads.
void choose_threads(Prepared& prepared, const Launcher::Say& say);

}  // namespace dpbench
