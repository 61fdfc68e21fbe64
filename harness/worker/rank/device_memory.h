// Tracks the peak of this process's GPU memory in each case, as counted by LibTorch's allocator.
#pragma once

#include <cstdint>

#include <c10/core/CachingDeviceAllocator.h>

namespace dpbench {

struct DeviceMemory {
  int64_t allocated = 0, reserved = 0;  // reserved: taken from the GPU, including free memory that the allocator caches
};

// Tracks the largest memory peak among the process's GPUs.
class DevicePeak {
 public:
  DevicePeak(c10::DeviceAllocator& allocator, int devices) : allocator_(allocator), devices_(devices) {}

  // Resets the peak before a case. Cached free memory is returned to the GPUs first, so that it does not count for the
  // case.
  void reset();
  DeviceMemory peak() const;
  // Memory allocated between pause() and resume() does not count as allocated. It counts as reserved, because returning
  // it to a GPU would slow down the next step.
  void pause() { earlier_ = peak(); }
  void resume() { restart(); }

 private:
  DeviceMemory since_restart() const;
  void restart();

  c10::DeviceAllocator& allocator_;
  int devices_;
  DeviceMemory earlier_;  // largest peak before the latest pause of counting
};

// Returns the peak of this process's GPUs; null without a GPU.
DevicePeak* device_peak();

}  // namespace dpbench
