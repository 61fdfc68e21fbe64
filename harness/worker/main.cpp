// dpbench-worker: the process of one rank. The dpbench executable starts it; run it by hand only for --catalogue.
#include "harness/worker/worker_main.h"

int main(int argc, char** argv) { return dpbench::worker_main({argv + 1, argv + argc}); }
