#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "harness/worker/rank/host_memory.h"

namespace dpbench {
namespace {

constexpr size_t block = 1 << 20;

// Allocates, writes and frees `blocks` MiB.
void use(size_t blocks) {
  std::vector<void*> all;
  for (size_t i = 0; i < blocks; ++i) {
    all.push_back(std::malloc(block));
    std::memset(all.back(), 1, block);
  }
  for (void* one : all) std::free(one);
}

int64_t resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) / 1024;
  return 0;
}

class UncountedMemoryTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { retain_freed_memory(Runtime::fast); }
  void SetUp() override {
    reset_peak_memory();
    use(64);
  }
};

TEST_F(UncountedMemoryTest, AllocationsInItsScopeDoNotRaiseTheReportedPeak) {
  const int64_t before = peak_memory_bytes();
  {
    const UncountedMemory uncounted;
    use(128);
  }
  EXPECT_LT(peak_memory_bytes(), before + static_cast<int64_t>(16 * block));
}

TEST_F(UncountedMemoryTest, KeepsFreedMemoryResidentIfUsageInItsScopeStaysBelowThePeak) {
  const int64_t before = resident_mib();
  {
    const UncountedMemory uncounted;
    use(8);
  }
  EXPECT_GT(resident_mib(), before - 16);
}

TEST_F(UncountedMemoryTest, ReturnsFreedMemoryToTheSystemIfUsageInItsScopeExceedsThePeak) {
  const int64_t before = resident_mib();
  {
    const UncountedMemory uncounted;
    use(128);
  }
  EXPECT_LT(resident_mib(), before - 16);
}

}  // namespace
}  // namespace dpbench
