// Limits shared by the command line and the workloads. No torch dependency.
#pragma once

#include <cstdint>

namespace dpbench {

inline constexpr int64_t kMaxScale = 64;  // largest --scale

}  // namespace dpbench
