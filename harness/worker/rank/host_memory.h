// Memory of this process: the host allocator's settings, and the peak usage of each case on the host. device_memory.h
// has the peak on GPUs.
#pragma once

#include <cstdint>

#include "harness/report/record/case.h"
#include "workloads/base/runtime.h"

namespace dpbench {

// Makes malloc keep freed memory in the process. By default, the process's earlier allocations decide whether glibc
// returns the pages of a step's tensors to the kernel and gets them back, zeroed, in every step. With the fast runtime,
// also caches small tensors by size (small_blocks.h). A no-op if the environment variable MALLOC_MMAP_THRESHOLD_,
// MALLOC_TRIM_THRESHOLD_, MALLOC_TOP_PAD_ or GLIBC_TUNABLES is set. Call it before starting other threads.
void retain_freed_memory(Runtime runtime);

// Records the memory in use before the process's first case. Peaks of later cases exclude what earlier cases left
// allocated.
void record_initial_memory();

// Resets the peaks, on the host and on GPUs, before a case. Free memory is returned to the kernel first, so the next
// case is not charged for it.
void reset_peak_memory();
int64_t peak_memory_bytes();
// Writes the current case's peaks, on the host and on GPUs, into the record.
void record_peaks(RankRecord& record);

// Memory that the process uses while an object of this class exists does not count towards the case's peaks. If it
// raises the host's peak and malloc keeps some of it, the destructor returns free memory to the kernel. The next step
// is then slower.
class UncountedMemory {
 public:
  UncountedMemory();
  ~UncountedMemory();
  UncountedMemory(const UncountedMemory&) = delete;
  UncountedMemory& operator=(const UncountedMemory&) = delete;

 private:
  int64_t held_before_;
};

}  // namespace dpbench
