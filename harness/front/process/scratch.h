// The private directory of a run on this host: rendezvous file, progress page, shared memory segments, shared samples.
// Its mode is 0700, it is in /dev/shm if there is room, and it is removed at the end of the run. The owner holds a lock
// on it, so leftovers of dead runs can be recognised.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/front/process/fd.h"

namespace dpbench {

class Scratch {
 public:
  // Removes the leftovers of this user's dead runs, then creates a directory. `parents` is in order of preference.
  explicit Scratch(const std::vector<std::filesystem::path>& parents = usual_parents());
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Removes the files of a finished group: the rendezvous file and all files named with the group's prefix.
  void forget_group(const std::string& group) const;

  static std::vector<std::filesystem::path> usual_parents();
  // True if `path` is a scratch directory of this user. Paths received from other processes must be checked.
  static bool is_private(const std::filesystem::path& path);
  // Removes the leftovers of dead runs from one parent. Returns the number removed.
  static int clean(const std::filesystem::path& parent);

 private:
  bool make_in(const std::filesystem::path& parent);  // false: another run took it for a leftover and removed it

  std::filesystem::path path_;
  Fd lock_;
};

}  // namespace dpbench
