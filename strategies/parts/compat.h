// Wrappers for functions of LibTorch that have different names in the LibTorch versions that dpbench supports.
#pragma once

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace dpbench {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Starts a reduce-scatter of flat tensors: each rank gets an equal piece of the sum of `whole` over ranks.
inline WorkPtr begin_reduce_scatter(c10d::ProcessGroup& group, at::Tensor& piece, at::Tensor& whole) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  return group._reduce_scatter_base(piece, whole);
#else
  return group.reduce_scatter_single(piece, whole);
#endif
}

inline WorkPtr begin_allgather(c10d::ProcessGroup& group, at::Tensor& whole, at::Tensor& piece) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  return group._allgather_base(whole, piece);
#else
  return group.all_gather_single(whole, piece);
#endif
}

inline void reduce_scatter_flat(c10d::ProcessGroup& group, at::Tensor& piece, at::Tensor& whole) {
  begin_reduce_scatter(group, piece, whole)->wait();
}

inline void allgather_flat(c10d::ProcessGroup& group, at::Tensor& whole, at::Tensor& piece) {
  begin_allgather(group, whole, piece)->wait();
}

}  // namespace dpbench
