// Tests the count of the memory in use by CPU tensors, and the peak of this count.
#include "harness/worker/rank/tensor_memory.h"

#include <gtest/gtest.h>

#include <thread>

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

namespace dpbench {
namespace {

constexpr int64_t mebibyte = 1 << 20;

// Enables the count of tensor memory for the rest of the program, as dpbench's worker does.
class TensorMemory : public testing::Test {
 protected:
  static void SetUpTestSuite() { count_tensor_memory(); }
  static at::Tensor of_bytes(int64_t bytes) { return at::empty({bytes}, at::kByte); }
};

TEST_F(TensorMemory, CountsLargeTensorsUntilTheyAreFreed) {
  const int64_t before = tensor_bytes();
  {
    const at::Tensor large = of_bytes(mebibyte);
    EXPECT_NEAR(static_cast<double>(tensor_bytes() - before), mebibyte, 4096);
    const int64_t with_large = tensor_bytes();
    const at::Tensor small = of_bytes(4000), view = large.narrow(0, 0, 10);
    EXPECT_EQ(tensor_bytes(), with_large);
  }
  EXPECT_EQ(tensor_bytes(), before);
}

TEST_F(TensorMemory, ThePeakIsTheMostMemoryInUseSinceThePeakWasReset) {
  of_bytes(16 * mebibyte);
  restart_tensor_peak();
  const int64_t before = tensor_bytes();
  EXPECT_EQ(tensor_peak_bytes(), before);
  {
    const at::Tensor first = of_bytes(2 * mebibyte), second = of_bytes(3 * mebibyte);
  }
  of_bytes(4 * mebibyte);
  EXPECT_NEAR(static_cast<double>(tensor_peak_bytes() - before), 5 * mebibyte, 8192);
  EXPECT_EQ(tensor_bytes(), before);
}

TEST_F(TensorMemory, TensorsFreedOnAnotherThreadNoLongerCount) {
  const int64_t before = tensor_bytes();
  at::Tensor tensor = of_bytes(mebibyte);
  std::jthread([moved = std::move(tensor)]() mutable { moved.reset(); }).join();
  EXPECT_EQ(tensor_bytes(), before);
}

TEST_F(TensorMemory, FreedRawBlocksOfAnySizeLeaveTheCountUnchanged) {
  const int64_t before = tensor_bytes();
  c10::Allocator* const all = c10::GetCPUAllocator();
  for (const size_t bytes :
       {size_t{0}, size_t{64}, size_t{4096}, size_t{4097}, size_t{8191}, size_t{8192}, size_t{1} << 20})
    all->raw_deallocate(all->raw_allocate(bytes));
  EXPECT_EQ(tensor_bytes(), before);
}

}  // namespace
}  // namespace dpbench
