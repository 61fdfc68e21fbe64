// Transfers of state and gradients between replicas: through a link, as one flat buffer each, or by copies and sums.
#pragma once

#include <string>
#include <vector>

#include "strategies/comm/base/replica_link.h"
#include "strategies/dp/flat_replica.h"
#include "strategies/parts/replica_threads.h"

namespace dpbench::dp {

// Returns the link for these devices, or null if replicas copy and add by themselves. option: the value of dp.link.
const ReplicaLink* link_between(const std::vector<at::Device>& devices, const std::string& option);

// Broadcasts the first replica's state to the others.
void broadcast_state(const ReplicaLink& link, const Replicas& replicas, bool with_parameters);

// Sums all gradients in replica 0. active: the number of replicas with samples in this step. Each replica's thread
// packs its gradients for the link, or adds its share of all elements if there is no link.
void sum_gradients(const Replicas& replicas, ReplicaThreads& threads, const ReplicaLink* link, int active);

}  // namespace dpbench::dp
