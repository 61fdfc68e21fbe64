// Transfers state and gradients between the replicas of one process: through a link (NCCL or plain copies of one flat
// buffer), or by copying and adding tensors in shared memory.
#pragma once

#include <string>
#include <vector>

#include "strategies/comm/base/replica_link.h"
#include "strategies/dp/flat_replica.h"
#include "strategies/parts/replica_threads.h"

namespace dpbench::dp {

// Returns the link that moves state and gradients between the replicas on these devices: plain copies if `plain` is
// true, else NCCL. Returns null for a single device. If `plain` is false, also returns null if NCCL is missing, a
// device is not a GPU, or two replicas share a GPU.
const ReplicaLink* link_between(const std::vector<at::Device>& devices, bool plain);

// Broadcasts the first replica's state to the other replicas.
void broadcast_state(const ReplicaLink& link, const Replicas& replicas, bool with_parameters);

// Sums all replicas' gradients in replica 0. With a link, each replica's thread packs its gradients and the link sums
// them. Without a link, each thread sums its share of the elements. active: the number of replicas with samples in this
// step.
void sum_gradients(const Replicas& replicas, ReplicaThreads& threads, const ReplicaLink* link, int active);

}  // namespace dpbench::dp
