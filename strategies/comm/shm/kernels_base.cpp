#define DPBENCH_FILL fill_base
#include "strategies/comm/shm/kernels.inc"
