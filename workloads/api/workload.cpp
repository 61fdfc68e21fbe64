#include "workloads/api/workload.h"

#include "workloads/base/error.h"
#include "workloads/base/limits.h"

namespace dpbench {

Batch Workload::test_batch(const at::Tensor&) const { throw UsageError("this workload has no test samples"); }

std::string Workload::continued(const Forward&, int64_t, uint64_t) const {
  throw UsageError("--generate: this workload writes no text");
}

int64_t checked_scale(const WorkloadOptions& options) {
  if (options.scale >= 1 && options.scale <= max_scale) return options.scale;
  throw UsageError("--scale " + std::to_string(options.scale) + ": must be 1 (the original model) to " +
                   std::to_string(max_scale));
}

Registry<WorkloadInfo>& workload_registry() {
  static Registry<WorkloadInfo> registry;
  return registry;
}

RegisterWorkload::RegisterWorkload(WorkloadInfo info) {
  register_or_note([&] {
    require_field(!info.name.empty(), "workload", info.name, "name");
    require_field(static_cast<bool>(info.make), "workload", info.name, "make");
    require_field(info.batch >= 1, "workload", info.name, "batch of 1 or more");
    workload_registry().add(std::move(info));
  });
}

}  // namespace dpbench
