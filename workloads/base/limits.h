// What the command line and every workload agree upon. Knows no torch.
#pragma once

#include <cstdint>

namespace dpbench {

inline constexpr int64_t kMaxScale = 64;  // of --scale

}  // namespace dpbench
