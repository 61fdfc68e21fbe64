// Runs a scenario with the baseline, the strategy for a single device.
#pragma once

#include <optional>

#include "harness/conform/scenario/drive.h"

namespace dpbench {

// Returns the baseline's evidence, which the strategy must equal bit for bit in a world of 1. Returns nullopt for a
// larger world, for a single-device strategy, for a strategy that uses a narrower dtype than the baseline, and for a
// workload with its own optimizer.
std::optional<Evidence> baseline_of(const Bench& bench, const Scenario& scenario);

}  // namespace dpbench
