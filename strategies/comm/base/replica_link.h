// Moving one buffer per device between the replicas of one process. dpbench_cuda offers NCCL for it; without that,
// copies do.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

struct ReplicaLink {
  void (*broadcast)(const std::vector<at::Tensor>& buffers);  // the first one to all the others
  void (*reduce)(std::vector<at::Tensor>& buffers);           // the sum of all into the first one
};

// Set by dpbench_cuda when it is loaded; null before.
const ReplicaLink*& nccl_replica_link();

}  // namespace dpbench
