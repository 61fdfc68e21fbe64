#include "strategies/dp/links.h"

#include <ATen/ATen.h>

#include "workloads/error.h"

namespace dpbench::dp {
namespace {

// The same two operations by plain copies and sums, in replica order.
const ReplicaLink plain_link{
    [](const std::vector<at::Tensor>& buffers) {
      for (size_t i = 1; i < buffers.size(); ++i) buffers[i].copy_(buffers[0], /*non_blocking=*/true);
    },
    [](std::vector<at::Tensor>& buffers) {
      for (size_t i = 1; i < buffers.size(); ++i) buffers[0].add_(buffers[i].to(buffers[0].device()));
    }};

}  // namespace

// NCCL wants a device for each replica; without it, or for virtual devices, replicas copy and add for themselves unless told otherwise.
const ReplicaLink* link_between(const std::vector<at::Device>& devices, const std::string& asked) {
  if (asked == "plain") return devices.size() > 1 ? &plain_link : nullptr;
  if (asked != "auto") throw UsageError("dp.link=" + asked + " is none of: auto, plain");
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].is_cuda()) return nullptr;
    for (size_t j = 0; j < i; ++j)
      if (devices[i] == devices[j]) return nullptr;
  }
  return devices.size() > 1 ? nccl_replica_link() : nullptr;
}

void broadcast_state(const ReplicaLink& link, const Replicas& replicas, bool with_parameters) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < replicas[0]->state_in_pieces(with_parameters).size(); ++i) {
    std::vector<at::Tensor> pieces;
    for (const auto& one : replicas) pieces.push_back(one->state_in_pieces(with_parameters)[i]);
    link.broadcast(pieces);
  }
}

}  // namespace dpbench::dp
