// Runs a scenario on a single device.
#pragma once

#include <optional>

#include "harness/conform/scenario/drive.h"

namespace dpbench {

// Returns the run that a world of 1 must equal bit for bit; nullopt for a larger world or a strategy without this
// requirement.
std::optional<Evidence> baseline_of(const Bench& bench, const Scenario& scenario);

}  // namespace dpbench
