// Tensors in shared memory, which other ranks of the host can read and reduce in place. Each allocation is a block.
// c10d's Reducer allocates its buckets this way.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>

#include "strategies/comm/shm/host_group.h"

namespace dpbench::shm {

// Returns a one-dimensional CPU tensor in a new block of shared memory, which is freed with the tensor's last
// reference.
at::Tensor allocate_shared(int64_t count, const at::TensorOptions& options);

// Returns the block (allocation in shared memory) of this process that holds these bytes, and their offset in it. The
// block number is 0 if the bytes are not in shared memory.
Place find_place(const void* data, size_t bytes);

// The other ranks' blocks (allocations in shared memory) that this rank has mapped.
class PeerBlocks {
 public:
  // Returns the address, in this process, of a tensor of another rank. place: where it lies in shared memory, as that
  // rank announced. Maps the memory if this process has not mapped it yet.
  char* view(const HostGroup& group, int rank, const Place& place);

 private:
  std::map<std::pair<int, uint64_t>, Mapping> mapped_;
};

}  // namespace dpbench::shm
