// The ledger of a profile: the bytes and calls of each collective operation, as counted and as predicted by the
// strategy's formula.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "harness/report/record/case.h"
#include "harness/worker/measure/collective_watch.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// The formula's traffic of all profiled steps; nullopt if the strategy has no formula.
using Formula = std::optional<std::vector<Traffic>>;

// Returns the profiled steps' traffic by the strategy's formula. first: number of the first profiled step. micro:
// number of this rank's samples in each micro-batch, for all steps from step 0 to the last profiled one. Builds the
// workload's model.
Formula formula_of(const CaseSpec& spec, const Setup& setup, int rank, int64_t first,
                   const std::vector<std::vector<int64_t>>& micro);

// Returns one entry per collective operation and mesh axis, with means over the steps.
std::vector<LedgerEntry> ledger_of(const std::deque<CollectiveLog::Call>& calls, const Formula& formula, int64_t steps);

}  // namespace dpbench
