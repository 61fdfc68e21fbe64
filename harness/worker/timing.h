// The timed loop: barriers around a sample, none inside; one clock reading a step.
#pragma once

#include "harness/report/case.h"
#include "harness/report/gpu_watch.h"
#include "harness/worker/group.h"
#include "harness/worker/pulse.h"
#include "harness/worker/step_source.h"
#include "strategies/strategy.h"

namespace dpbench {

// Warm-up, with the steps of recording_steps() in it, then samples. Fills everything but the rank's hash, memory and profile.
RankRecord time_steps(Strategy& strategy, StepSource& source, const std::vector<int64_t>& recording, const Sampling& sampling,
                      const Group& group, Pulse& pulse, GpuWatch& gpus);

}  // namespace dpbench
