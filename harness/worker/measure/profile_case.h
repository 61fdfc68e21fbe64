// Profiles a case in a separate pass after timing: phases, collectives and FLOP of a step.
#pragma once

#include "harness/report/record/case.h"
#include "harness/worker/rank/group.h"
#include "harness/worker/rank/pulse.h"
#include "harness/worker/steps/step_source.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// Collective. Creates a new strategy with watched collectives; fills the record's phases_ns and profile.
void profile_case(const CaseSpec& spec, const Setup& setup, StepSource& source, const Sampling& sampling,
                  const Group& group, Pulse& pulse, RankRecord& record);

}  // namespace dpbench
