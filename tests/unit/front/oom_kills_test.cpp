// What the kernel says of processes that it killed for their memory.
#include <fstream>

#include "harness/front/process/oom_kills.h"
#include "tests/unit/front/launch_parts.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

// A tree of files as the kernel shows them of process 7.
class OomKillsTest : public Here {
 protected:
  void put(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::string after(const std::string& groups, const fs::path& counter, const std::string& text) const {
    put("proc/7/cgroup", groups);
    const OomKills kills(7, root_);
    EXPECT_EQ(kills.words(), "");
    put(counter, text);
    return kills.words();
  }
};

TEST_F(OomKillsTest, AreToldWithTheLimitOfTheGroup) {
  const fs::path group = "sys/fs/cgroup/a/b";
  put(group / "memory.events", "low 0\nhigh 0\nmax 3\noom 0\noom_kill 2\n");
  put(group / "memory.max", "4096\n");
  EXPECT_EQ(after("0::/a/b\n", group / "memory.events", "low 0\nmax 4\noom 1\noom_kill 3\n"),
            "killed by the control group's limit of 4096 bytes");
}

TEST_F(OomKillsTest, AreTheFirstVersionsWhereItHasTheMemory) {
  put("sys/fs/cgroup/memory.events", "oom_kill 5\n");
  const fs::path group = "sys/fs/cgroup/memory/job";
  put(group / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
  put(group / "memory.limit_in_bytes", "8192\n");
  EXPECT_EQ(
      after("5:cpu,memory:/job\n0::/\n", group / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
      "killed by the control group's limit of 8192 bytes");
}

TEST_F(OomKillsTest, AreCountedWhereTheGroupItselfCannotBeSeenAndByWhateverLimitIsAboveIt) {
  put("sys/fs/cgroup/box/memory.max", "1024\n");
  put("sys/fs/cgroup/box/inner/memory.max", "max\n");
  put("sys/fs/cgroup/box/inner/memory.events", "oom_kill 0\n");
  EXPECT_EQ(after("0::/box/inner/not/here\n", "sys/fs/cgroup/box/inner/memory.events", "oom_kill 1\n"),
            "killed by the control group's limit of 1024 bytes");
}

TEST_F(OomKillsTest, WithoutALimitAreTheMachines) {
  put("sys/fs/cgroup/memory/memory.oom_control", "oom_kill 0\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(after("4:memory:/\n", "sys/fs/cgroup/memory/memory.oom_control", "oom_kill 1\n"),
            "killed by the kernel, which had no memory left");
}

TEST_F(OomKillsTest, OfBeforeTheCaseAndWhatNobodyCountsAreNone) {
  EXPECT_EQ(OomKills(7, root_).words(), "");
  put("proc/7/cgroup", "0::/\n:\n\n4:memory\n");
  EXPECT_EQ(OomKills(7, root_).words(), "");
  put("sys/fs/cgroup/memory.events", "oom_kill 0\n");
  OomKills kills(7, root_);
  put("sys/fs/cgroup/memory.events", "oom_kill 1\n");
  EXPECT_NE(kills.words(), "");
  kills.forget();
  EXPECT_EQ(kills.words(), "");
}

}  // namespace
}  // namespace dpbench
