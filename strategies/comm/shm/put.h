// Copying to where another core will read.
#pragma once

#include <cstddef>

namespace dpbench::shm {

// Past the caches: ordinary stores to lines that a peer has read cost up to four times as much on the CPUs measured,
// since each must first take its line back from the peer. Visible to whoever sees a later atomic store.
void put(char* to, const char* from, size_t bytes);

}  // namespace dpbench::shm
