// The closed formula for the memory of a measured case.
#pragma once

#include <optional>

#include "harness/report/record/case.h"
#include "harness/report/record/profile.h"

namespace dpbench::forecast {

// Returns the memory of a rank by the formulas of `dpbench plan`. Returns nullopt without a formula for the case: on a
// GPU, or for another workload, strategy or option than plan knows. The case must have run, so that its model, mesh and
// options are valid.
std::optional<MemoryFormula> formula_memory(const CaseSpec& spec);

}  // namespace dpbench::forecast
