// The private directory of a run on this host: rendezvous file, progress page, segments, shared rows. Mode 0700, in
// shared memory where there is room, gone when the run is. A lock on it, held while its owner lives, tells leftovers
// apart.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/front/process/fd.h"

namespace dpbench {

class Scratch {
 public:
  // Removes what dead runs of this user left behind, then makes a new one. `parents`: in order of preference.
  explicit Scratch(const std::vector<std::filesystem::path>& parents = usual_parents());
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Drops what a finished group left: the rendezvous file, and all names that begin with the group's.
  void forget_group(const std::string& group) const;

  static std::vector<std::filesystem::path> usual_parents();
  // Whether such a directory of ours is there: what another process names may be anything.
  static bool is_private(const std::filesystem::path& path);
  // Leftovers of dead runs removed from one parent; how many.
  static int clean(const std::filesystem::path& parent);

 private:
  bool make_in(const std::filesystem::path& parent);  // false: somebody took it for a leftover

  std::filesystem::path path_;
  Fd lock_;
};

}  // namespace dpbench
