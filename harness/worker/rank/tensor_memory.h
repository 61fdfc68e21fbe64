// Counts the memory of this process's CPU tensors, without tensors below 8 KiB.
#pragma once

#include <cstdint>

namespace dpbench {

// Counts tensors that are allocated from now on, by whatever allocator torch has at this moment. Call it before other
// threads start.
void count_tensor_memory();

// Bytes that are allocated, and the most since restart_tensor_peak().
int64_t tensor_bytes();
int64_t tensor_peak_bytes();
void restart_tensor_peak();

}  // namespace dpbench
