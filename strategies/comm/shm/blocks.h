// Tensors that lie in shared memory, so that peers reduce them where they are: the Reducer puts its buckets there.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>

#include "strategies/comm/shm/host_group.h"

namespace dpbench::shm {

// A one-dimensional CPU tensor in shared memory of its own, given back with its last reference.
at::Tensor allocate_shared(int64_t count, const at::TensorOptions& options);

// Where these bytes lie in the shared memory of this process; block 0 if they do not.
Place find_place(const void* data, size_t bytes);

// The peers' blocks that this rank has mapped.
class PeerBlocks {
 public:
  // The bytes at a place that a rank announced.
  char* view(const HostGroup& group, int rank, const Place& place);

 private:
  std::map<std::pair<int, uint64_t>, Mapping> mapped_;
};

}  // namespace dpbench::shm
