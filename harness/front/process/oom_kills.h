// Detects that the kernel killed a process because its control group (v1 or v2) or the machine ran out of memory. The
// exit status alone shows only signal 9.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace dpbench {

class OomKills {
 public:
  OomKills() = default;
  // `root` is the parent of /proc and /sys/fs/cgroup; tests pass another directory.
  explicit OomKills(pid_t pid, const std::filesystem::path& root = "/");

  // Ignores all kills so far.
  void reset();
  // Returns for example "killed by the control group's limit of 4096 bytes". Empty if there was no out-of-memory kill
  // since the last reset, or no counter is available.
  std::string reason() const;

 private:
  int64_t count() const;

  std::filesystem::path counter_;  // empty: not available
  const char* limit_ = "";         // name of the limit file in the same directory
  int64_t before_ = 0;
};

}  // namespace dpbench
