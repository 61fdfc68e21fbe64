// Peak resident memory of this process since it was last forgotten.
#pragma once

#include <cstdint>

namespace dpbench {

void forget_peak_memory();
int64_t peak_memory_bytes();

}  // namespace dpbench
