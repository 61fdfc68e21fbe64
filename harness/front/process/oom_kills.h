// Detects that the kernel killed a process because the machine or its control group (cgroup v1 or v2) ran out of
// memory. The exit status alone shows only signal 9.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace dpbench {

class OomKills {
 public:
  OomKills() = default;
  // Watches the control group of process `pid`. `root` is the directory that contains /proc and /sys/fs/cgroup; tests
  // pass another one.
  explicit OomKills(pid_t pid, const std::filesystem::path& root = "/");

  // Makes reason() ignore all out-of-memory kills so far.
  void reset();
  // Returns the cause of an out-of-memory kill, for example "killed by the control group's limit of 4096 bytes". Empty
  // if there was no such kill since the last reset, or if no counter is available.
  std::string reason() const;

 private:
  int64_t count() const;

  std::filesystem::path counter_;  // file that counts the control group's out-of-memory kills; empty: none
  // Name of the file with the memory limit, in the folder of the file that counts out-of-memory kills.
  const char* limit_ = "";
  int64_t before_ = 0;
};

}  // namespace dpbench
