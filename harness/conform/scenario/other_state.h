// A training state that a strategy never had, for the scenario that loads it.
#pragma once

#include "harness/conform/scenario/bench.h"

namespace dpbench {

// Returns parameters and buffers of another model and drawn values for the optimizer's state tensors, the same on every
// rank. state: the state that the strategy reports; the returned state has its names, sizes and dtypes. The step
// counters of the optimizer are below Scenario::first.
Snapshot other_state(const Bench& bench, const Scenario& scenario, NamedTensors state);

}  // namespace dpbench
