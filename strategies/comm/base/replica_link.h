// Interface for moving one buffer per device between the replicas of a single process. The library dpbench_cuda
// implements it with NCCL.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

struct ReplicaLink {
  // Copies the buffer of the first replica into the buffers of all other replicas.
  void (*broadcast)(const std::vector<at::Tensor>& buffers);
  void (*reduce)(std::vector<at::Tensor>& buffers);  // sums all replicas' buffers into the first replica's buffer
};

// The NCCL implementation of ReplicaLink; null until the library dpbench_cuda is loaded, which sets it.
const ReplicaLink*& nccl_replica_link();

}  // namespace dpbench
