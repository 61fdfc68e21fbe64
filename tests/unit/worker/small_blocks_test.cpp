// Memory of small tensors: kept by size, never lent twice.
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

// From here on for this whole program, as in a worker.
class SmallBlocks : public testing::Test {
 protected:
  SmallBlocks() { cache_small_blocks(); }

  static c10::DataPtr block(size_t bytes) { return c10::GetCPUAllocator()->allocate(bytes); }
};

TEST_F(SmallBlocks, AreThereAgainForTheNextOfTheirSize) {
  for (const int64_t count : {1, 16, 17, 150, 1024}) {
    const void* const place = at::empty({count}).data_ptr();
    EXPECT_EQ(at::empty({count}).data_ptr(), place) << count;
  }
  std::jthread([] {
    const auto before = mallinfo2().uordblks;
    block(4096).clear();
    EXPECT_GE(mallinfo2().uordblks, before + 4096) << "malloc has it back";
  });
}

TEST_F(SmallBlocks, StandWhereTensorsMustAndHoldWhatWasAskedFor) {
  for (size_t bytes = 1; bytes <= 5000; ++bytes)
    for (int again = 0; again < 2; ++again) {
      const auto got = block(bytes);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(got.get()) % c10::gAlignment, 0u) << bytes;
      ASSERT_GE(malloc_usable_size(got.get()), bytes);
    }
}

TEST_F(SmallBlocks, LeaveTheEmptyAndTheLargeToTorch) {
  EXPECT_EQ(block(0).get(), nullptr);
  const auto all = c10::GetCPUAllocator();
  for (const size_t bytes : {size_t{0}, size_t{5000}, size_t{1} << 20}) all->raw_deallocate(all->raw_allocate(bytes));
  const auto torchs = c10::GetDefaultCPUAllocator()->allocate(1).get_deleter();
  EXPECT_EQ(block(4097).get_deleter(), torchs);
  EXPECT_NE(block(4096).get_deleter(), torchs);
}

// Whatever is freed in whatever order, on whatever thread: nobody writes into what another holds.
TEST_F(SmallBlocks, AreLentToOneAtATime) {
  struct Lent {
    c10::DataPtr data;
    size_t bytes;
    char mark;
    bool untouched() const {
      const char* const begin = static_cast<const char*>(data.get());
      return std::all_of(begin, begin + bytes, [this](char c) { return c == mark; });
    }
  };
  std::mutex mutex;
  std::vector<Lent> shared;
  std::atomic<int> broken = 0;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Lent> mine;
    for (int i = 0; i < 20'000; ++i) {
      const size_t bytes = 1 + random() % 4500;
      const char mark = static_cast<char>(random());
      mine.push_back({block(bytes), bytes, mark});
      std::memset(mine.back().data.get(), mark, bytes);
      const std::lock_guard lock(mutex);
      shared.push_back(std::move(mine.back()));
      mine.pop_back();
      if (shared.size() < 100) continue;
      std::swap(shared[random() % shared.size()], shared.back());
      broken += !shared.back().untouched();
      shared.pop_back();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  }
  for (const Lent& lent : shared) broken += !lent.untouched();
  EXPECT_EQ(broken, 0);
}

// Keeps 16 of a size, and gives them back with its thread.
TEST_F(SmallBlocks, AreKeptInNumbersThatStayBounded) {
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
  outlived.clear();  // freed by another than who asked for it, who has ended
  before = in_use();
  for (int i = 0; i < 50; ++i)
    std::jthread([] {
      std::vector<c10::DataPtr> some;
      for (int k = 0; k < 16; ++k) some.push_back(block(4096));
    });
  EXPECT_LT(in_use(), before + 16 * 4096);
  for (int i = 0; i < 50; ++i)
    std::jthread([] {
      thread_local std::vector<c10::DataPtr> last;  // made before what this thread keeps: it goes after that
      last.reserve(16);
      for (int k = 0; k < 16; ++k) last.push_back(block(4096));
    });
  EXPECT_LT(in_use(), before + 16 * 4096) << "freed after the thread's blocks were given back, and kept all the same";
}

}  // namespace
}  // namespace dpbench
