// Adds communication to a pipeline schedule that has only computations: the transfers between stages, and the
// reductions of gradients of parameters that several stages share.
#pragma once

#include "strategies/schedule/schedule.h"
#include "strategies/schedule/simulate.h"

namespace dpbench::pipeline {

// Returns the schedule with its communication: sends, receives, and reductions of the gradients of shared parameters.
// Each is placed at the time when the computation that it depends on ends in a simulation, and a receive one
// computation earlier. A send and its receive have the same position in one global order of transfers, and a rank's
// computations need only transfers before them, so the schedule cannot deadlock, with or without buffers. Sets the
// number of receive buffers to what this order needs. The given schedule must have no sends and receives and pass
// verify(); its reductions, unshards and reshards are left out. All costs must be above 0.
Schedule lower(const Schedule& compute, const Costs& costs = {});

// Returns the number of receive buffers per channel that the schedule needs, which is the largest number of received
// tensors that wait in one channel.
int needed_receive_slots(const Schedule& schedule);

}  // namespace dpbench::pipeline
