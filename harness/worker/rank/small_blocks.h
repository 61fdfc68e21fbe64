// The allocator of torch's CPU tensors. It caches freed memory blocks of small tensors, in one list per size.
#pragma once

namespace dpbench {

// Makes torch use the cache for small tensors on all threads. Without it, glibc's splitting and merging of chunks for
// aligned memory takes 10 % of a step of the random-linear workload.
void cache_small_blocks();

}  // namespace dpbench
