#include "harness/worker/rank/tensor_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <mutex>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace dpbench {
namespace {

// Tensors of at most most_uncounted bytes are not counted, because counting would slow down steps of many small
// tensors. When a block is freed, only malloc's block size is known, which may exceed the requested size, so blocks
// count only from least_counted bytes.
constexpr size_t most_uncounted = 4096;

std::atomic<int64_t> allocated = 0, peak = 0;

std::atomic<bool> watched = false;
std::mutex watching;
TensorWatcher* current = nullptr;  // observer of allocations; guarded by the mutex `watching`

template <class Tell>
void tell(const Tell& tell_watcher) {
  if (!watched.load(std::memory_order_relaxed)) return;
  const std::scoped_lock lock(watching);
  if (current) tell_watcher(*current);
}

// Returns the bytes to count for a memory block; 0 for a small block. The result depends only on the block, so that
// allocating and freeing it count the same bytes.
int64_t counted(void* block) {
  const size_t bytes = malloc_usable_size(block);
  return bytes >= least_counted ? static_cast<int64_t>(bytes) : 0;
}

void add(int64_t bytes) {
  const int64_t now = allocated.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t most = peak.load(std::memory_order_relaxed);
  while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) continue;
}

class CountedTensors : public c10::Allocator {
 public:
  explicit CountedTensors(c10::Allocator* inner) { inner_ = inner; }

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes <= most_uncounted) return inner_->allocate(bytes);
    void* const block = inner_->allocate(bytes).release_context();
    if (const int64_t counted_size = counted(block); counted_size > 0) {
      add(counted_size);
      tell([&](TensorWatcher& one) { one.allocated(block, counted_size); });
    }
    return {block, block, &CountedTensors::release, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &CountedTensors::release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  static void release(void* block) {
    if (const int64_t bytes = counted(block); bytes > 0) {
      allocated.fetch_sub(bytes, std::memory_order_relaxed);
      tell([&](TensorWatcher& one) { one.freed(block, bytes); });
    }
    inner_->raw_deleter()(block);
  }

 private:
  static inline c10::Allocator* inner_ = nullptr;
};

}  // namespace

void count_tensor_memory() {
  // The allocator is never destroyed, because static destructors may still free tensors.
  static CountedTensors& counting = *new CountedTensors(c10::GetCPUAllocator());
  c10::SetCPUAllocator(&counting);
}

int64_t tensor_bytes() { return allocated; }
int64_t tensor_peak_bytes() { return peak; }
void restart_tensor_peak() { peak = allocated.load(); }

std::optional<int64_t> counted_bytes(const c10::Storage& storage) {
  if (storage.data_ptr().get_deleter() != &CountedTensors::release) return std::nullopt;
  return counted(storage.data_ptr().get_context());
}

void watch_tensors(TensorWatcher* watcher) {
  const std::scoped_lock lock(watching);
  current = watcher;
  watched = watcher != nullptr;
}

}  // namespace dpbench
