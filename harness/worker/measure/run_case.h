// Runs one case on one rank: sets up workload and strategy, times blocks of steps, then profiles extra steps.
#pragma once

#include <string>
#include <vector>

#include "harness/report/machine/gpu_watch.h"
#include "harness/report/record/case.h"
#include "harness/worker/rank/group.h"
#include "harness/worker/rank/pulse.h"
#include "harness/worker/steps/step_source.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// Runs the warm-up, including the steps in `recording`, in which a strategy that replays steps (e.g. in a CUDA graph)
// records them. Then times blocks of steps. A barrier precedes each block; within a block, the clock is read once per
// step. Returns a record without parameter hash, thread count, profile and the machine's peak rates.
RankRecord time_steps(Strategy& strategy, StepSource& source, const std::vector<int64_t>& recording,
                      const Sampling& sampling, const Group& group, Pulse& pulse, GpuWatch& gpus);

RankRecord run_case(const CaseSpec& spec, const Sampling& sampling, const Group& group, Pulse& pulse,
                    const std::string& shared_dir);

}  // namespace dpbench
