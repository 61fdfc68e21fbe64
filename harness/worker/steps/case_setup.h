// A case's workload and the setup of its strategy, as `run`, `train`, `check` and dpbench-micro make them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/report/record/case.h"
#include "harness/worker/rank/group.h"
#include "strategies/api/strategy.h"

namespace dpbench {

at::ScalarType scalar_type(Dtype dtype);
// Parameters that, by what the case asks for, each rank keeps for itself.
std::vector<std::string> own_parameters(const CaseSpec& spec);
// The same setup on every rank; `workload` must outlive what is made of it.
Setup setup_of(const CaseSpec& spec, const StrategyInfo& info, const Workload& workload, const Group& group);
std::unique_ptr<Workload> workload_of(const CaseSpec& spec, const std::string& shared_dir);

}  // namespace dpbench
