// Memory that this process has on its GPUs, as LibTorch's allocator counts it: the peak of each case.
#pragma once

#include <cstdint>

#include <c10/core/CachingDeviceAllocator.h>

namespace dpbench {

struct DeviceMemory {
  int64_t allocated = 0, reserved = 0;  // reserved: with free memory that the allocator keeps
};

// Follows the peak of the GPU that has the most.
class DevicePeak {
 public:
  DevicePeak(c10::DeviceAllocator& allocator, int devices) : allocator_(allocator), devices_(devices) {}

  // Begins a case. Free memory is returned to the GPUs first, so that the next case is not charged for it.
  void reset();
  DeviceMemory peak() const;
  // Between these two calls, allocated memory does not count. Memory that the allocator reserved for it does, because
  // returning it to a GPU would slow down the next step.
  void pause() { earlier_ = peak(); }
  void resume() { restart(); }

 private:
  DeviceMemory since_restart() const;
  void restart();

  c10::DeviceAllocator& allocator_;
  int devices_;
  DeviceMemory earlier_;  // before the last pause
};

// Returns the peak of this process's GPUs; null without a GPU.
DevicePeak* device_peak();

}  // namespace dpbench
