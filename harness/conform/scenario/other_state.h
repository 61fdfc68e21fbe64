// A training state that a strategy never had, for the scenario that loads it.
#pragma once

#include "harness/conform/scenario/bench.h"

namespace dpbench {

// Returns a training state that differs from the strategy's: parameters and buffers of the same model made from another
// seed, and random values for the optimizer's state tensors. It is the same on every rank. state: the state that the
// strategy reports; the returned state has its names, sizes and dtypes. The optimizer's step counters are below the
// number of the scenario's first step.
Snapshot other_state(const Bench& bench, const Scenario& scenario, NamedTensors state);

}  // namespace dpbench
