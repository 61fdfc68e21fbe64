// Creates a case's workload and the settings for its strategy, for `dpbench run`, `train` and `check` and for
// dpbench-micro.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/report/record/case.h"
#include "harness/worker/rank/group.h"
#include "strategies/api/strategy.h"

namespace dpbench {

at::ScalarType scalar_type(Dtype dtype);
// Returns the names of the parameters that the case's strategy does not synchronize between ranks.
std::vector<std::string> own_parameters(const CaseSpec& spec);
// Returns the mesh on which the case's strategy runs. The first call creates its process groups, so every rank must
// call it.
const Mesh& mesh_of(const CaseSpec& spec, const StrategyInfo& info, const Group& group);
// Returns the settings from which this rank makes the case's strategy. `workload` must outlive the strategies made from
// them.
Setup setup_of(const CaseSpec& spec, const StrategyInfo& info, const Workload& workload, const Group& group);
WorkloadOptions workload_options(const CaseSpec& spec, const std::string& shared_dir);
std::unique_ptr<Workload> workload_of(const CaseSpec& spec, const std::string& shared_dir);

}  // namespace dpbench
