#include "harness/worker/rank/small_blocks.h"

#include <malloc.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace dpbench {
namespace {

constexpr size_t unit = c10::gAlignment;  // alignment of tensors in bytes, and granularity of cached sizes
// Largest cached size, as a multiple of `unit`; maximum number of memory blocks cached per size and thread (2 MiB per
// thread in all).
constexpr size_t max_units = 64, max_cached = 16;

struct FreeBlock {
  FreeBlock* next;
};

struct FreeList {
  FreeBlock* first = nullptr;
  size_t count = 0;
};

// Per-thread cache of free memory blocks; falls back to malloc after the thread exits.
class ThreadCache {
 public:
  ~ThreadCache() {
    for (FreeList& list : lists_)
      while (void* block = take(list)) std::free(block);
    ended() = true;
  }

  static void* allocate(size_t units) {
    void* const kept = ended() ? nullptr : take(current().lists_[units]);
    return kept ? kept : std::aligned_alloc(unit, units * unit);
  }

  // Returns a memory block to the cache. malloc_usable_size() exceeds the requested size by less than `unit` bytes, so
  // it gives the block's size class.
  static void release(void* block) {
    const size_t units = malloc_usable_size(block) / unit;
    if (units == 0 || units > max_units || ended()) return std::free(block);
    FreeList& list = current().lists_[units];
    if (list.count == max_cached) return std::free(block);
    list = {new (block) FreeBlock{list.first}, list.count + 1};
  }

 private:
  static void* take(FreeList& list) {
    FreeBlock* const block = list.first;
    if (block) list = {block->next, list.count - 1};
    return block;
  }
  static ThreadCache& current() {
    thread_local ThreadCache cache;
    return cache;
  }
  static bool& ended() {
    thread_local bool value = false;
    return value;
  }

  std::array<FreeList, max_units + 1> lists_;
};

struct SmallBlocks : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0 || bytes > max_units * unit) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    void* const block = ThreadCache::allocate((bytes + unit - 1) / unit);
    // If malloc fails, let torch's default allocator try and throw its out-of-memory error.
    if (!block) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    return {block, block, &ThreadCache::release, c10::DeviceType::CPU};
  }
  // Returns the function that frees a memory block. It may also free blocks of torch's default allocator (empty or
  // large ones), which uses malloc too.
  c10::DeleterFnPtr raw_deleter() const override { return &ThreadCache::release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

void cache_small_blocks() {
  // The allocator is never destroyed, because static destructors may still free tensors.
  static SmallBlocks& blocks = *new SmallBlocks;
  c10::SetCPUAllocator(&blocks);
}

}  // namespace dpbench
