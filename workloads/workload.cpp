#include "workloads/workload.h"

namespace dpbench {

Batch Workload::test_batch(const at::Tensor&) const { throw UsageError("this workload has no test rows"); }

Registry<WorkloadInfo>& workload_registry() {
  static Registry<WorkloadInfo> registry;
  return registry;
}

RegisterWorkload::RegisterWorkload(WorkloadInfo info) { workload_registry().add(std::move(info)); }

}  // namespace dpbench
