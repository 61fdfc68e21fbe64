// A case once more, watched and untimed: parts of a step, collectives, operations.
#pragma once

#include "harness/report/case.h"
#include "harness/worker/group.h"
#include "harness/worker/pulse.h"
#include "harness/worker/step_source.h"
#include "strategies/strategy.h"

namespace dpbench {

// Makes a strategy of its own, whose collectives are watched; fills the record's phases_ns and profile. Collective.
void profile_case(const CaseSpec& spec, const Setup& setup, StepSource& source, const Sampling& sampling,
                  const Group& group, Pulse& pulse, RankRecord& record);

}  // namespace dpbench
