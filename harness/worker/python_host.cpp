// Runs dpbench-worker as a C function of the library dpbench_python. A Python interpreter that has imported torch and
// run the user's files calls this function (strategies/python/dpbench/host.py).
#include "harness/worker/worker_main.h"

extern "C" [[gnu::visibility("default")]] int dpbench_worker(int argc, char** argv) {
  return dpbench::worker_main({argv, argv + argc});
}
