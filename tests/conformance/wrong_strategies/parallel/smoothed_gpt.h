// The workload "smoothed-gpt": gpt with label smoothing, a second term of the loss, for mistakes in the losses of a
// divided vocabulary or sequence.
#pragma once

#include <cstdint>

namespace dpbench::wrong::smoothed {

inline constexpr double smoothing = 0.1;
inline constexpr int64_t vocabulary = 257;  // vocabulary size of the model `tiny`

}  // namespace dpbench::wrong::smoothed
