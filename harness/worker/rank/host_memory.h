// Host memory of this process: allocator settings and peak usage per case.
#pragma once

#include <cstdint>

namespace dpbench {

// Makes malloc keep freed memory in the process, and caches small tensors by size (small_blocks.h). By default glibc
// returns the pages of a step's gradients to the kernel and gets them back, zeroed, in every step. A no-op if the
// environment variable MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_, MALLOC_TOP_PAD_ or GLIBC_TUNABLES is set. Call
// it before starting other threads.
void retain_freed_memory();

// Records the memory in use before the process's first case, so that reset_peak_memory() can tell how much memory
// earlier cases left allocated.
void record_initial_memory();

// Resets the peak memory before a case. Free memory is returned to the kernel first, so the next case is not charged
// for it.
void reset_peak_memory();
int64_t peak_memory_bytes();
// Returns the peak memory of the current case as if it were the first of the process. Excludes file pages (LibTorch
// code loaded by earlier cases) and memory that earlier cases left allocated.
int64_t own_peak_memory_bytes();

// While an object exists, the process's memory does not count towards the case's peak. If it raised the peak, freed
// memory is returned to the kernel, so the next step is slower: it gets the pages back, zeroed.
class UncountedMemory {
 public:
  UncountedMemory();
  ~UncountedMemory();
  UncountedMemory(const UncountedMemory&) = delete;
  UncountedMemory& operator=(const UncountedMemory&) = delete;
};

}  // namespace dpbench
