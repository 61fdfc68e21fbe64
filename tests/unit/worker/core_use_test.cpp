// Tests CoreUse: CPU time, context switches, and time that this process's threads spent waiting for a core.
#include "harness/worker/rank/core_use.h"

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "harness/conform/evidence/computing.h"

namespace dpbench {
namespace {

using namespace std::chrono_literals;

void spin(std::chrono::milliseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
  }
}

bool kernel_tells() { return std::filesystem::exists("/proc/self/schedstat"); }

TEST(CoreUse, CountsCpuTimeButNotSleep) {
  const CoreUse use;
  std::this_thread::sleep_for(50ms);
  EXPECT_LT(use.spent().cpu_ns, 40'000'000);
  const CoreUse busy;
  spin(50ms);
  EXPECT_GT(busy.spent().cpu_ns, 1'000'000);
}

// Two threads spin on one core. Each waits about half of the time, whenever the other thread runs.
TEST(CoreUse, TellsHowLongAThreadWaitedForItsCore) {
  if (!kernel_tells()) GTEST_SKIP() << "this kernel has no schedstat";
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const CoreUse use;
  std::jthread other([] { spin(300ms); });
  spin(300ms);
  const CoreUse::Spent spent = use.spent();
  ::sched_setaffinity(0, sizeof before, &before);
  ASSERT_TRUE(spent.queue_ns);
  EXPECT_GT(*spent.queue_ns, 50'000'000);
  EXPECT_GT(spent.switches, 0);
}

TEST(CoreUse, CountsNoWaitForACoreWhileAThreadSleeps) {
  if (!kernel_tells()) GTEST_SKIP() << "this kernel has no schedstat";
  const CoreUse use;
  std::this_thread::sleep_for(100ms);
  const auto queued = use.spent().queue_ns;
  ASSERT_TRUE(queued);
  EXPECT_LT(*queued, 90'000'000) << "even on a busy machine: one wake-up";
}

TEST(Computing, CountsTheCpuTimeOfAThreadOnlyWhileAComputingObjectExists) {
  const int64_t before = Computing::cpu_ns();
  spin(20ms);
  EXPECT_EQ(Computing::cpu_ns(), before);
  int64_t inside = 0;
  {
    const Computing here;
    const Computing nested;
    spin(50ms);
    inside = Computing::cpu_ns();
    EXPECT_GT(inside, before);
  }
  const int64_t after = Computing::cpu_ns();
  EXPECT_GE(after, inside);
  spin(20ms);
  EXPECT_EQ(Computing::cpu_ns(), after);
}

TEST(CoreUse, CpuWithinIsTheCpuTimeOfTheSpanMinusTheTimeOutsideThePartAndAtLeastZero) {
  const CoreUse::Spent waited{.wall_ns = 178'000'000, .cpu_ns = 1'200'000},
      ran{.wall_ns = 25'300'000, .cpu_ns = 25'200'000};
  EXPECT_EQ(waited.cpu_within(1'000'000), 0);
  EXPECT_EQ(ran.cpu_within(25'000'000), 24'900'000);
}

}  // namespace
}  // namespace dpbench
