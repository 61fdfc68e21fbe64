// Chooses the number of threads per replica from the duration of a step.
#pragma once

#include "harness/front/run/launcher.h"
#include "harness/front/run/prepare.h"

namespace dpbench {

// Sets one thread for the planned CPU cases for which a step of the baseline takes less than a millisecond on one
// thread and with one replica. Handing work to other threads would cost more than it gains, and on a busy machine each
// hand-over may wait for a core. Does nothing if the user chose --threads.
void choose_threads(Prepared& prepared, const Launcher::Say& say);

}  // namespace dpbench
