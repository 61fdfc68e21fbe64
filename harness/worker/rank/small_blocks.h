// A cache for the memory of small CPU tensors, by size, installed as torch's CPU allocator.
#pragma once

namespace dpbench {

// Installs the cache of small tensors for all threads. Without the cache, glibc's splitting and merging of chunks for
// aligned memory takes 10 % of a step of the random-linear workload.
void cache_small_blocks();

}  // namespace dpbench
