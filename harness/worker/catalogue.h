// What exists, for the front, which knows no torch: strategies, workloads, backends, their parameters.
#pragma once

#include "harness/report/protocol.h"

namespace dpbench {

// with_cuda false: what is in CUDA's library is left out, and it is not loaded.
Json catalogue(bool with_cuda = true);

}  // namespace dpbench
