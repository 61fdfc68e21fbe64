// Counts the memory of this process's CPU tensors, except tensors below 8 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <c10/core/Storage.h>

namespace dpbench {

inline constexpr size_t least_counted = 8192;  // smallest size of a memory block that is counted

// Counts the CPU tensors allocated after this call, by wrapping torch's current allocator. Call it before other threads
// start.
void count_tensor_memory();

// tensor_bytes() returns the bytes allocated now; tensor_peak_bytes() returns their peak since restart_tensor_peak().
int64_t tensor_bytes();
int64_t tensor_peak_bytes();
void restart_tensor_peak();

// Returns the counted bytes of a storage; 0 if it is too small; nullopt if it is from another allocator, e.g. the one
// for memory that ranks share.
std::optional<int64_t> counted_bytes(const c10::Storage& storage);

// Observer of every allocation and release of a counted tensor. It is called on the thread that allocates or frees.
class TensorWatcher {
 public:
  virtual ~TensorWatcher() = default;
  virtual void allocated(const void* block, int64_t bytes) = 0;
  virtual void freed(const void* block, int64_t bytes) = 0;
};
// Sets the only observer; null: none. When watch_tensors() returns, no call to the former observer is in progress.
void watch_tensors(TensorWatcher* watcher);

}  // namespace dpbench
