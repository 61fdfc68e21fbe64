#define DPBENCH_FILL fill_avx2
#include "strategies/comm/shm/kernels.inc"
