#define DPBENCH_FILL fill_avx512
#include "strategies/comm/shm/kernels.inc"
