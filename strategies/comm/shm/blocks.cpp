#include "strategies/comm/shm/blocks.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <mutex>

namespace dpbench::shm {
namespace {

struct MemoryBlock {
  uint64_t number;
  Descriptor memory;
  Mapping mapping;
};

// All blocks (tensor allocations in shared memory) of this process, ordered by address.
class Blocks {
 public:
  char* add(size_t bytes) {
    Descriptor memory = create_memory("dpbench-tensor", bytes);
    Mapping mapping(memory.get(), bytes);
    char* const at = mapping.data();
    const std::lock_guard lock(mutex_);
    blocks_.emplace(at, MemoryBlock{next_++, std::move(memory), std::move(mapping)});
    return at;
  }

  void remove(char* at) {
    const std::lock_guard lock(mutex_);
    blocks_.erase(at);
  }

  Place find(char* data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto next = blocks_.upper_bound(data);
    if (next == blocks_.begin()) return {.oldest = oldest()};
    const auto& [at, block] = *std::prev(next);
    const auto offset = static_cast<size_t>(data - at);
    if (offset + bytes > block.mapping.bytes()) return {.oldest = oldest()};
    return {block.number, oldest(), offset, block.mapping.bytes(), at, block.memory.get()};
  }

 private:
  uint64_t oldest() const {
    uint64_t least = next_;
    for (const auto& [at, block] : blocks_) least = std::min(least, block.number);
    return least;
  }

  std::mutex mutex_;
  std::map<char*, MemoryBlock> blocks_;
  uint64_t next_ = 1;
};

// Returns the registry of this process's blocks. It is never destroyed, because tensors may outlive static objects.
Blocks& blocks() {
  static auto* const all = new Blocks;
  return *all;
}

}  // namespace

at::Tensor allocate_shared(int64_t count, const at::TensorOptions& options) {
  const size_t bytes = std::max<size_t>(1, count * options.dtype().itemsize());
  char* const at = blocks().add((bytes + 4095) / 4096 * 4096);
  return at::from_blob(at, {count}, [](void* data) { blocks().remove(static_cast<char*>(data)); }, options);
}

Place find_place(const void* data, size_t bytes) {
  return blocks().find(static_cast<char*>(const_cast<void*>(data)), bytes);
}

char* PeerBlocks::view(const HostGroup& group, int rank, const Place& place) {
  if (group.home() == Home::threads) return place.address + place.offset;
  mapped_.erase(mapped_.lower_bound({rank, 0}), mapped_.lower_bound({rank, place.oldest}));
  auto found = mapped_.find({rank, place.block});
  if (found == mapped_.end()) {
    Mapping mapping = map_memory_of(group.pid(rank), place.fd, place.bytes);
    found = mapped_.emplace(std::pair{rank, place.block}, std::move(mapping)).first;
  }
  return found->second.data() + place.offset;
}

}  // namespace dpbench::shm
