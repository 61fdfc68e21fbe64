// Broadcasts one rank's tensors to all ranks, coalesced into few messages as in torch's DDP.
#pragma once

#include <vector>

#include <torch/csrc/distributed/c10d/comm.hpp>

namespace dpbench {

inline void broadcast_from(int rank, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                           const std::vector<at::Tensor>& tensors) {
  constexpr size_t bytes_at_once = size_t{250} * 1024 * 1024;
  c10d::broadcast_coalesced(group, tensors, bytes_at_once, rank);
}

}  // namespace dpbench
