// Scratch: the private directory of a run, its permissions and its cleanup.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "harness/front/process/scratch.h"
#include "tests/unit/front/launch_parts.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

class ScratchTest : public TempDirTest {};

TEST_F(ScratchTest, DirectoryIsPrivateAndRemovedAtTheEndOfTheRun) {
  fs::path path;
  {
    const Scratch scratch({root_});
    path = scratch.path();
    struct stat state{};
    ASSERT_EQ(::stat(path.c_str(), &state), 0);
    EXPECT_EQ(state.st_mode & 0777, 0700u);
    std::ofstream(path / "store") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(ScratchTest, RemovesLeftoversOfDeadRunsOnly) {
  const fs::path dead = root_ / ("dpbench-" + std::to_string(::getuid()) + "-dead00");
  fs::create_directories(dead / "segments");
  std::ofstream(dead / "segments" / "one") << "x";
  fs::create_directories(root_ / "somebody-elses");
  const Scratch live({root_});
  const Scratch second({root_});
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(live.path()));
  EXPECT_TRUE(fs::exists(second.path()));
  EXPECT_TRUE(fs::exists(root_ / "somebody-elses"));
}

TEST_F(ScratchTest, RemovesUnfinishedDirectoriesOfDeadRuns) {
  const std::string unfinished = ".new-dpbench-" + std::to_string(::getuid()) + "-";
  const fs::path dead = root_ / (unfinished + "dead00"), live = root_ / (unfinished + "live00"),
                 other = root_ / ".new-somebody-elses";
  for (const auto& path : {dead, live, other}) fs::create_directories(path);
  const Fd held(::open(live.c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  EXPECT_EQ(Scratch::clean(root_), 1);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(live));
  EXPECT_TRUE(fs::exists(other));
}

// A starting run removes unlocked directories. It may remove a directory that another run is just creating; both runs
// must start without an error.
TEST_F(ScratchTest, ManyRunsCanCreateTheirDirectoriesAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) EXPECT_NO_THROW({ EXPECT_TRUE(Scratch::is_private(Scratch({root_}).path())); });
    });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(ScratchTest, CleanupDoesNotFollowSymbolicLinks) {
  fs::create_directories(root_ / "treasure");
  fs::create_directory_symlink(root_ / "treasure", root_ / ("dpbench-" + std::to_string(::getuid()) + "-link00"));
  EXPECT_EQ(Scratch::clean(root_), 0);
  EXPECT_TRUE(fs::exists(root_ / "treasure"));
}

TEST_F(ScratchTest, AcceptsOnlyPrivateDirectoriesOfThisUser) {
  const Scratch scratch({root_});
  EXPECT_TRUE(Scratch::is_private(scratch.path()));
  const fs::path link = root_ / ("dpbench-" + std::to_string(::getuid()) + "-link00"), file = root_ / "dpbench-file";
  fs::create_directory_symlink(scratch.path(), link);
  std::ofstream(file) << "x";
  for (const fs::path& other :
       {root_, link, file, scratch.path() / "..", fs::path("/"), fs::path(""), fs::path("relative"),
        fs::path("/dev/shm"), scratch.path() / ".." / scratch.path().filename(), fs::path("/nowhere/dpbench-0-x")})
    EXPECT_FALSE(Scratch::is_private(other)) << other;
  fs::permissions(scratch.path(), fs::perms::group_exec, fs::perm_options::add);
  EXPECT_FALSE(Scratch::is_private(scratch.path())) << "the group may enter";
}

TEST_F(ScratchTest, RemovesTheFilesOfOneProcessGroupAndKeepsOthers) {
  const Scratch scratch({root_});
  for (const char* name : {"store", "group1-cpu-segment", "rows"}) std::ofstream(scratch.path() / name) << "x";
  scratch.forget_group("group1-cpu");
  EXPECT_FALSE(fs::exists(scratch.path() / "store"));
  EXPECT_FALSE(fs::exists(scratch.path() / "group1-cpu-segment"));
  EXPECT_TRUE(fs::exists(scratch.path() / "rows"));
}

}  // namespace
}  // namespace dpbench
