// The scratch directory: a run's private directory on this host for the rendezvous file, progress page, shared memory
// segments and shared samples. It has mode 0700, is in /dev/shm if there is room, and is removed at the end of the run.
// The run holds a lock on it, so that leftovers of dead runs can be recognised.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/front/process/fd.h"

namespace dpbench {

class Scratch {
 public:
  // Removes the leftovers of this user's dead runs, then creates a scratch directory in one of `parents`, which are in
  // order of preference.
  explicit Scratch(const std::vector<std::filesystem::path>& parents = usual_parents());
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Removes the files of a finished group of ranks: the rendezvous file, and all files whose names start with the
  // group's name.
  void forget_group(const std::string& group) const;

  static std::vector<std::filesystem::path> usual_parents();
  // True if `path` is a scratch directory of this user. Call this for every path received from another process.
  static bool is_private(const std::filesystem::path& path);
  // Removes the scratch directories of dead runs from `parent`. Returns the number removed.
  static int clean(const std::filesystem::path& parent);

 private:
  // Creates the scratch directory in `parent`. Returns false if another run took it for a leftover and removed it.
  bool make_in(const std::filesystem::path& parent);

  std::filesystem::path path_;
  Fd lock_;
};

}  // namespace dpbench
