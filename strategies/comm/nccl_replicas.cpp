// Moves buffers between the GPUs of a single process with NCCL. Part of the library dpbench_cuda only.
#include <vector>

#include <torch/csrc/cuda/nccl.h>

#include "strategies/comm/base/replica_link.h"

namespace dpbench {
namespace {

void broadcast(const std::vector<at::Tensor>& buffers) { torch::cuda::nccl::broadcast(buffers); }

void reduce(std::vector<at::Tensor>& buffers) { torch::cuda::nccl::reduce(buffers); }

const ReplicaLink link{broadcast, reduce};
[[maybe_unused]] const bool offered = (nccl_replica_link() = &link) != nullptr;

}  // namespace
}  // namespace dpbench
