// What exists, for the front, which knows no torch: strategies, workloads, backends, their parameters.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/report/record/protocol.h"

namespace dpbench {

// with_cuda false: what is in CUDA's library is left out, and it is not loaded. Workloads beyond the first `built_in`
// are of plug-ins.
Json catalogue(bool with_cuda = true, size_t built_in = SIZE_MAX);

}  // namespace dpbench
