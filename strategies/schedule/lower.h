// Adds transfers, and reductions of the gradients that stages share, to a schedule of computations.
#pragma once

#include "strategies/schedule/schedule.h"
#include "strategies/schedule/simulate.h"

namespace dpbench::pipeline {

// Returns the schedule with sends, receives and reductions of the gradients of shared parameters, each placed at the
// time at which the computation that it needs ends in a simulation. Each send and its receive have the same position in
// one global order, so the result cannot deadlock, with or without buffers. Declares as many receive buffers as the
// order needs. Requires a schedule of computations that verify() accepts, and costs above 0.
Schedule lower(const Schedule& compute, const Costs& costs = {});

// Returns the number of receive buffers that the fullest channel of the schedule needs.
int needed_receive_slots(const Schedule& schedule);

}  // namespace dpbench::pipeline
