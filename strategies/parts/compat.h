// Functions that have different names in the supported LibTorch versions.
#pragma once

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace dpbench {

// Reduce-scatter of flat tensors: each rank gets an equal piece of the sum of `whole` over ranks.
inline void reduce_scatter_flat(c10d::ProcessGroup& group, at::Tensor& piece, at::Tensor& whole) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  group._reduce_scatter_base(piece, whole)->wait();
#else
  group.reduce_scatter_single(piece, whole)->wait();
#endif
}

inline void allgather_flat(c10d::ProcessGroup& group, at::Tensor& whole, at::Tensor& piece) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  group._allgather_base(whole, piece)->wait();
#else
  group.all_gather_single(whole, piece)->wait();
#endif
}

}  // namespace dpbench
