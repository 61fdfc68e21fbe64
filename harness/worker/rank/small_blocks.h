// A cache for the memory of small CPU tensors, by size.
#pragma once

namespace dpbench {

// Installs the cache for all threads. Without it, glibc's splitting and merging of chunks for aligned memory takes 10 %
// of a random-linear step.
void cache_small_blocks();

}  // namespace dpbench
