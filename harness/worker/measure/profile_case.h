// Profiles a case in a separate pass after timing: the time of each phase of a step (forward, backward, ...), its
// collectives and its floating-point operations.
#pragma once

#include "harness/report/record/case.h"
#include "harness/worker/rank/group.h"
#include "harness/worker/rank/pulse.h"
#include "harness/worker/steps/step_source.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// Profiles a case. Every rank must call it. Creates a new instance of the strategy, whose collectives are observed.
// Replaces the record's phases_ns and profile. Returns true if torch's engine ran a backward pass.
bool profile_case(const CaseSpec& spec, const Setup& setup, StepSource& source, const Sampling& sampling,
                  const Group& group, Pulse& pulse, RankRecord& record);

}  // namespace dpbench
