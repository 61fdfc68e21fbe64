// How state and gradients get from replica to replica: by a link as one buffer each, or by copies and sums.
#pragma once

#include <string>
#include <vector>

#include "strategies/comm/base/replica_link.h"
#include "strategies/dp/flat_replica.h"
#include "strategies/parts/replica_threads.h"

namespace dpbench::dp {

// Null: replicas copy and add for themselves. asked: the value of dp.link.
const ReplicaLink* link_between(const std::vector<at::Device>& devices, const std::string& asked);

// The first replica's to all others.
void broadcast_state(const ReplicaLink& link, const Replicas& replicas, bool with_parameters);

// All gradients, summed in replica 0. active: how many replicas had rows in this step. Each replica's thread packs its
// own for the link, or without one adds its part.
void sum_gradients(const Replicas& replicas, ReplicaThreads& threads, const ReplicaLink* link, int active);

}  // namespace dpbench::dp
