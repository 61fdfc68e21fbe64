// Tensors in shared memory, which peers can reduce in place. The Reducer allocates its buckets there.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>

#include "strategies/comm/shm/host_group.h"

namespace dpbench::shm {

// Returns a one-dimensional CPU tensor in its own shared memory, freed with its last reference.
at::Tensor allocate_shared(int64_t count, const at::TensorOptions& options);

// Returns the place of these bytes in this process's shared memory; block 0 if they are elsewhere.
Place find_place(const void* data, size_t bytes);

// The peers' blocks mapped by this rank.
class PeerBlocks {
 public:
  // Returns the address of a place announced by `rank`; maps the block if needed.
  char* view(const HostGroup& group, int rank, const Place& place);

 private:
  std::map<std::pair<int, uint64_t>, Mapping> mapped_;
};

}  // namespace dpbench::shm
