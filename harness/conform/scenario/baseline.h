// The single device's own run of a scenario.
#pragma once

#include <optional>

#include "harness/conform/scenario/drive.h"

namespace dpbench {

// What a world of 1 must equal bit for bit; nothing for a larger world, or for a strategy that need not.
std::optional<Evidence> baseline_of(const Bench& bench, const Scenario& scenario);

}  // namespace dpbench
