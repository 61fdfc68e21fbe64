// Runs a strategy through a scenario on this rank and records its results as evidence.
#pragma once

#include <optional>
#include <string>

#include "harness/conform/evidence/evidence.h"
#include "harness/conform/scenario/bench.h"

namespace dpbench {

Evidence drive(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm);

// Returns the place at which a scenario ended early, e.g. "rank 1, step 2, scenario even".
std::string place_of_error(const Evidence& evidence, const Scenario& scenario);

}  // namespace dpbench
