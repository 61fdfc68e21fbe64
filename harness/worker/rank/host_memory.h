// Host memory of this process: how it is kept, and the most that was resident since that was last forgotten.
#pragma once

#include <cstdint>

namespace dpbench {

// To be called before there is another thread. What is freed stays ours, to be used by the next step: glibc would
// otherwise give the pages of a step's gradients back and get them again, zeroed, in every step. Small tensors' is kept
// by its size (small_blocks.h). Whoever sets glibc's own variables has chosen, and nothing is changed.
void keep_freed_memory();

// What the process holds before its first case.
void note_bare_memory();

// Gives back what is free first: it would count as the next case's.
void forget_peak_memory();
int64_t peak_memory_bytes();
// The same without pages of files (LibTorch's code: the more, the more kinds of cases ran) and without what was held
// more than bare when it was forgotten: as if the case were the process's first.
int64_t own_peak_memory_bytes();

}  // namespace dpbench
