// One case on one rank: workload, strategy, timing.
#pragma once

#include "harness/report/case.h"
#include "harness/worker/group.h"
#include "harness/worker/pulse.h"
#include "strategies/strategy.h"

namespace dpbench {

// f32, f64 or bf16.
at::ScalarType dtype_of(const std::string& name);
// Parameters that, by what the case asks for, each rank keeps for itself.
std::vector<std::string> own_parameters(const CaseSpec& spec);
// The same setup on every rank; `workload` must outlive what is made of it.
Setup setup_of(const CaseSpec& spec, const StrategyInfo& info, const Workload& workload, const Group& group);
std::unique_ptr<Workload> workload_of(const CaseSpec& spec, const std::string& shared_dir);

RankRecord run_case(const CaseSpec& spec, const Sampling& sampling, const Group& group, Pulse& pulse,
                    const std::string& shared_dir);

}  // namespace dpbench
