// The allocator cache for small tensors: memory blocks are reused by size and never belong to two tensors at once.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include "harness/worker/rank/small_blocks.h"

namespace dpbench {
namespace {

// Enables the cache of small blocks for the rest of the program, as dpbench's worker does.
class SmallBlocks : public testing::Test {
 protected:
  SmallBlocks() { cache_small_blocks(); }

  static c10::DataPtr block(size_t bytes) { return c10::GetCPUAllocator()->allocate(bytes); }
};

TEST_F(SmallBlocks, AreReusedForAllocationsOfTheSameSizeAfterTheyAreFreed) {
  for (const int64_t count : {1, 16, 17, 150, 1024}) {
    const void* const address = at::empty({count}).data_ptr();
    EXPECT_EQ(at::empty({count}).data_ptr(), address) << count;
  }
  std::jthread([] {
    const auto before = mallinfo2().uordblks;
    block(4096).clear();
    EXPECT_GE(mallinfo2().uordblks, before + 4096) << "the block went back to malloc instead of the cache";
  });
}

TEST_F(SmallBlocks, AreAlignedAndLargeEnough) {
  for (size_t bytes = 1; bytes <= 5000; ++bytes)
    for (int again = 0; again < 2; ++again) {
      const auto got = block(bytes);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(got.get()) % c10::gAlignment, 0u) << bytes;
      ASSERT_GE(malloc_usable_size(got.get()), bytes);
    }
}

TEST_F(SmallBlocks, EmptyAndLargeBlocksComeFromTorchsAllocator) {
  EXPECT_EQ(block(0).get(), nullptr);
  const auto all = c10::GetCPUAllocator();
  for (const size_t bytes : {size_t{0}, size_t{5000}, size_t{1} << 20}) all->raw_deallocate(all->raw_allocate(bytes));
  const auto torchs = c10::GetDefaultCPUAllocator()->allocate(1).get_deleter();
  EXPECT_EQ(block(4097).get_deleter(), torchs);
  EXPECT_NE(block(4096).get_deleter(), torchs);
}

// Several threads allocate, fill and free blocks in random order. A block whose content changes has two owners.
TEST_F(SmallBlocks, AreNeverAllocatedASecondTimeWhileInUse) {
  struct Owned {
    c10::DataPtr data;
    size_t bytes;
    char mark;
    bool intact() const {
      const char* const begin = static_cast<const char*>(data.get());
      return std::all_of(begin, begin + bytes, [this](char c) { return c == mark; });
    }
  };
  std::mutex mutex;
  std::vector<Owned> shared;
  std::atomic<int> broken = 0;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Owned> owned;
    for (int i = 0; i < 20'000; ++i) {
      const size_t bytes = 1 + random() % 4500;
      const char mark = static_cast<char>(random());
      owned.push_back({block(bytes), bytes, mark});
      std::memset(owned.back().data.get(), mark, bytes);
      const std::lock_guard lock(mutex);
      shared.push_back(std::move(owned.back()));
      owned.pop_back();
      if (shared.size() < 100) continue;
      std::swap(shared[random() % shared.size()], shared.back());
      broken += !shared.back().intact();
      shared.pop_back();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  }
  for (const Owned& owned : shared) broken += !owned.intact();
  EXPECT_EQ(broken, 0);
}

// Each thread caches up to 16 blocks per size and frees them when the thread ends.
TEST_F(SmallBlocks, AreCachedOnlyUpToALimitPerThreadAndFreedWhenTheThreadEnds) {
  const auto in_use = [] { return mallinfo2().uordblks; };
  std::jthread([&] {
    const auto before = in_use();
    std::vector<c10::DataPtr> many;
    for (int i = 0; i < 1000; ++i) many.push_back(block(4096));
    const auto full = in_use();
    many.clear();
    EXPECT_GT(full - before, 1000u * 4096);
    EXPECT_LT(in_use() - before, 40u * 4096);
  });
  size_t before = 0;
  std::vector<c10::DataPtr> outlived;
  std::jthread([&] { outlived.push_back(block(1000)); }).join();
  outlived.clear();  // frees a block that was allocated by a thread that has already ended
  before = in_use();
  for (int i = 0; i < 50; ++i)
    std::jthread([] {
      std::vector<c10::DataPtr> some;
      for (int k = 0; k < 16; ++k) some.push_back(block(4096));
    });
  EXPECT_LT(in_use(), before + 16 * 4096);
  for (int i = 0; i < 50; ++i)
    std::jthread([] {
      // These blocks are destroyed after the thread's cache of blocks, because the cache is constructed later.
      thread_local std::vector<c10::DataPtr> last;
      last.reserve(16);
      for (int k = 0; k < 16; ++k) last.push_back(block(4096));
    });
  EXPECT_LT(in_use(), before + 16 * 4096) << "blocks freed after the thread's cache was destroyed";
}

}  // namespace
}  // namespace dpbench
