// The workload "smoothed-gpt", for wrong losses over a divided vocabulary: gpt with label smoothing.
#pragma once

#include <cstdint>

namespace dpbench::wrong::smoothed {

inline constexpr double smoothing = 0.1;
inline constexpr int64_t vocabulary = 257;  // vocabulary size of the model `tiny`

}  // namespace dpbench::wrong::smoothed
