// A case once more, watched and untimed: parts of a step, collectives, operations.
#pragma once

#include "harness/report/record/case.h"
#include "harness/worker/rank/group.h"
#include "harness/worker/rank/pulse.h"
#include "harness/worker/steps/step_source.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// Makes a strategy of its own, whose collectives are watched; fills the record's phases_ns and profile. Collective.
void profile_case(const CaseSpec& spec, const Setup& setup, StepSource& source, const Sampling& sampling,
                  const Group& group, Pulse& pulse, RankRecord& record);

}  // namespace dpbench
