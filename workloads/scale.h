// --scale K: what every workload accepts.
#pragma once

#include <string>

#include "workloads/error.h"
#include "workloads/limits.h"
#include "workloads/workload.h"

namespace dpbench {

inline int64_t checked_scale(const WorkloadOptions& options) {
  if (options.scale >= 1 && options.scale <= kMaxScale) return options.scale;
  throw UsageError("--scale " + std::to_string(options.scale) + ": allowed are 1 (the model as it is) to " +
                   std::to_string(kMaxScale));
}

}  // namespace dpbench
