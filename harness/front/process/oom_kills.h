// Was a process killed because its control group (v1 or v2), or the machine, ran out of memory? All else that is seen
// of it is signal 9.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace dpbench {

class OomKills {
 public:
  OomKills() = default;
  // root: below which /proc and /sys/fs/cgroup are; another one in tests.
  explicit OomKills(pid_t pid, const std::filesystem::path& root = "/");

  // Kills count from now on.
  void forget();
  // "killed by the control group's limit of 4096 bytes" when the kernel has killed for memory since; empty when not, or
  // when nobody counts.
  std::string words() const;

 private:
  int64_t count() const;

  std::filesystem::path counter_;  // empty: unknown
  const char* limit_ = "";         // the name of the file beside it
  int64_t before_ = 0;
};

}  // namespace dpbench
