// OomKills reads from the cgroup files whether the kernel killed a process because memory ran out.
#include <fstream>

#include "harness/front/process/oom_kills.h"
#include "tests/unit/front/launch_parts.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

// A fake /proc and cgroup tree in which process 7 runs.
class OomKillsTest : public TempDirTest {
 protected:
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  // Returns the reason that OomKills reports after `text` has replaced the content of the file that counts kills; empty
  // if it reports no kill.
  std::string message_after(const std::string& groups, const fs::path& counter, const std::string& text) const {
    write("proc/7/cgroup", groups);
    const OomKills kills(7, root_);
    EXPECT_EQ(kills.reason(), "");
    write(counter, text);
    return kills.reason();
  }
};

TEST_F(OomKillsTest, ReportsTheMemoryLimitOfTheControlGroup) {
  const fs::path group = "sys/fs/cgroup/a/b";
  write(group / "memory.events", "low 0\nhigh 0\nmax 3\noom 0\noom_kill 2\n");
  write(group / "memory.max", "4096\n");
  expect_contains(message_after("0::/a/b\n", group / "memory.events", "low 0\nmax 4\noom 1\noom_kill 3\n"), {"4096"});
}

TEST_F(OomKillsTest, ReadsCgroupV1WhenItControlsMemory) {
  write("sys/fs/cgroup/memory.events", "oom_kill 5\n");
  const fs::path group = "sys/fs/cgroup/memory/job";
  write(group / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
  write(group / "memory.limit_in_bytes", "8192\n");
  expect_contains(message_after("5:cpu,memory:/job\n0::/\n", group / "memory.oom_control",
                                "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
                  {"8192"});
}

TEST_F(OomKillsTest, FallsBackToTheClosestVisibleParentControlGroup) {
  write("sys/fs/cgroup/box/memory.max", "1024\n");
  write("sys/fs/cgroup/box/inner/memory.max", "max\n");
  write("sys/fs/cgroup/box/inner/memory.events", "oom_kill 0\n");
  expect_contains(message_after("0::/box/inner/not/here\n", "sys/fs/cgroup/box/inner/memory.events", "oom_kill 1\n"),
                  {"1024"});
}

TEST_F(OomKillsTest, ReportsAKillWithoutAByteCountIfThereIsNoMemoryLimit) {
  write("sys/fs/cgroup/memory/memory.oom_control", "oom_kill 0\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const std::string message = message_after("4:memory:/\n", "sys/fs/cgroup/memory/memory.oom_control", "oom_kill 1\n");
  EXPECT_NE(message, "");
  EXPECT_EQ(message.find_first_of("0123456789"), std::string::npos) << message << ": there is no limit to report";
}

TEST_F(OomKillsTest, IgnoresEarlierKillsAndMissingCounters) {
  EXPECT_EQ(OomKills(7, root_).reason(), "");
  write("proc/7/cgroup", "0::/\n:\n\n4:memory\n");
  EXPECT_EQ(OomKills(7, root_).reason(), "");
  write("sys/fs/cgroup/memory.events", "oom_kill 0\n");
  OomKills kills(7, root_);
  write("sys/fs/cgroup/memory.events", "oom_kill 1\n");
  EXPECT_NE(kills.reason(), "");
  kills.reset();
  EXPECT_EQ(kills.reason(), "");
}

}  // namespace
}  // namespace dpbench
