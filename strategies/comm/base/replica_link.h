// Interface for moving one buffer per device between the replicas of one process. dpbench_cuda implements it with NCCL.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

struct ReplicaLink {
  void (*broadcast)(const std::vector<at::Tensor>& buffers);  // from the first buffer to the others
  void (*reduce)(std::vector<at::Tensor>& buffers);           // sums all buffers into the first
};

// Set by dpbench_cuda when it is loaded; null before.
const ReplicaLink*& nccl_replica_link();

}  // namespace dpbench
