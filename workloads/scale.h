// --scale K: what every workload accepts.
#pragma once

#include <string>

#include "workloads/error.h"
#include "workloads/workload.h"

namespace dpbench {

inline constexpr int64_t max_scale = 64;

inline int64_t checked_scale(const WorkloadOptions& options) {
  if (options.scale >= 1 && options.scale <= max_scale) return options.scale;
  throw UsageError("--scale " + std::to_string(options.scale) + ": allowed are 1 (the model as it is) to " +
                   std::to_string(max_scale));
}

}  // namespace dpbench
