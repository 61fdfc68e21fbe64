// The sum of all replicas' gradients, in replica 0.
#pragma once

#include "strategies/comm/replica_link.h"
#include "strategies/dp/flat_replica.h"
#include "strategies/replica_threads.h"

namespace dpbench::dp {

// active: how many had rows in this step. Each replica's thread packs its own for the link, or without one adds its part.
void sum_gradients(const Replicas& replicas, ReplicaThreads& threads, const ReplicaLink* link, int active);

}  // namespace dpbench::dp
