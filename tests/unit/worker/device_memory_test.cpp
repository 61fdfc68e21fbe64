#include "harness/worker/rank/device_memory.h"

#include <array>

#include <gtest/gtest.h>

namespace dpbench {
namespace {

// A fake allocator: a test sets the number of bytes in use. Freed bytes stay reserved until the cache is emptied.
class FakeAllocator : public c10::DeviceAllocator {
 public:
  void use(size_t device, int64_t bytes) {
    auto& stats = stats_.at(device);
    set(stats.allocated_bytes[0], bytes);
    set(stats.reserved_bytes[0], std::max(stats.reserved_bytes[0].current, bytes));
  }

  bool initialized() override { return ready; }
  void emptyCache(c10::MempoolId_t) override {
    for (auto& stats : stats_) stats.reserved_bytes[0].current = stats.allocated_bytes[0].current;
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    EXPECT_TRUE(ready) << "LibTorch's allocator has no statistics before its first use";
    return stats_.at(static_cast<size_t>(device));
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override {
    auto& stats = stats_.at(static_cast<size_t>(device));
    for (auto* sum : {&stats.allocated_bytes[0], &stats.reserved_bytes[0]}) sum->peak = sum->current;
  }
  c10::DataPtr allocate(size_t) override { return {}; }
  void copy_data(void*, const void*, size_t) const override {}

  bool ready = true;

 private:
  static void set(c10::CachingAllocator::Stat& sum, int64_t bytes) {
    sum.current = bytes, sum.peak = std::max(sum.peak, bytes);
  }

  std::array<c10::CachingDeviceAllocator::DeviceStats, 2> stats_;
};

class DeviceMemoryTest : public testing::Test {
 protected:
  void expect_peak(int64_t allocated, int64_t reserved) const {
    EXPECT_EQ(peak.peak().allocated, allocated);
    EXPECT_EQ(peak.peak().reserved, reserved);
  }

  FakeAllocator allocator;
  DevicePeak peak{allocator, 2};
};

TEST_F(DeviceMemoryTest, ThePeakOverGpusIsTheLargestPeakOfOneGpu) {
  allocator.use(0, 10), allocator.use(1, 30), allocator.use(1, 5), allocator.use(0, 20);
  expect_peak(30, 30);
}

TEST_F(DeviceMemoryTest, ResetForgetsTheAllocatedAndReservedMemoryOfThePreviousCase) {
  allocator.use(0, 100), allocator.use(0, 10);
  peak.reset();
  allocator.use(0, 40), allocator.use(0, 20);
  expect_peak(40, 40);
}

TEST_F(DeviceMemoryTest, PeakAllocatedMemoryExcludesAuditsButPeakReservedMemoryIncludesThem) {
  peak.reset();
  allocator.use(0, 40), allocator.use(0, 20);
  peak.pause();
  allocator.use(0, 100), allocator.use(0, 20);
  peak.resume();
  expect_peak(40, 100);
  allocator.use(0, 50);
  expect_peak(50, 100);
}

TEST_F(DeviceMemoryTest, ThePeakIsZeroBeforeTheGpuAllocatorIsInitialised) {
  allocator.ready = false;
  peak.reset();
  expect_peak(0, 0);
}

}  // namespace
}  // namespace dpbench
