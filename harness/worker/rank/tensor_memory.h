// Counts the memory of this process's CPU tensors, except tensors below 8 KiB.
#pragma once

#include <cstdint>

namespace dpbench {

// Counts the CPU tensors allocated after this call, by wrapping torch's current allocator. Call it before other threads
// start.
void count_tensor_memory();

// tensor_bytes() returns the bytes allocated now; tensor_peak_bytes() returns their peak since restart_tensor_peak().
int64_t tensor_bytes();
int64_t tensor_peak_bytes();
void restart_tensor_peak();

}  // namespace dpbench
