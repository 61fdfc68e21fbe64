// What moves state and gradients between replicas as one buffer each.
#pragma once

#include <string>

#include "strategies/comm/replica_link.h"
#include "strategies/dp/flat_replica.h"

namespace dpbench::dp {

// Null: replicas copy and add for themselves. asked: the value of dp.link.
const ReplicaLink* link_between(const std::vector<at::Device>& devices, const std::string& asked);

// The first replica's to all others.
void broadcast_state(const ReplicaLink& link, const Replicas& replicas, bool with_parameters);

}  // namespace dpbench::dp
