// The steps in which a strategy that records its steps does so: they are taken before anything is timed.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/report/case.h"
#include "harness/worker/step_source.h"

namespace dpbench {

// Which steps of an epoch to take, in this order, until steps of every number of rows are replayed; the same on every rank. None for
// a strategy that records nothing.
std::vector<int64_t> recording_steps(const CaseSpec& spec, const StepSource& source);

}  // namespace dpbench
