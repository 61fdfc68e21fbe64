// The log file with the stdout and stderr of one rank.
#pragma once

#include <filesystem>
#include <string>

#include "harness/front/process/fd.h"

namespace dpbench {

class RankLog {
 public:
  RankLog() = default;
  RankLog(const std::filesystem::path& folder, int rank);

  // Creates the log file. Throws UsageError if the file exists or cannot be created. On a full disk, the rank's output
  // is discarded instead.
  Fd open() const;
  bool flooded() const;
  // Returns the last lines of the log without control characters.
  std::string tail() const;
  // Removes the log file if it is empty, and truncates it if it is too large.
  void tidy() const;

 private:
  std::filesystem::path path_;
};

}  // namespace dpbench
