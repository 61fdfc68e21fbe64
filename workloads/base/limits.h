// Limits shared by the command line and the workloads. Does not depend on torch.
#pragma once

#include <cstdint>

namespace dpbench {

inline constexpr int64_t max_scale = 64;  // largest allowed value of the flag --scale

}  // namespace dpbench
