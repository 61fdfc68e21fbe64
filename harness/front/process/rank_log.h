// Log file with the output of one rank.
#pragma once

#include <filesystem>
#include <string>

#include "harness/front/process/fd.h"

namespace dpbench {

class RankLog {
 public:
  RankLog() = default;
  RankLog(const std::filesystem::path& folder, int rank);

  // Creates the file. Throws UsageError if it exists or cannot be created. On a full disk the output is discarded.
  Fd open() const;
  bool flooded() const;
  // Returns the last lines without control characters.
  std::string tail() const;
  // Removes an empty log and truncates a flooded one.
  void tidy() const;

 private:
  std::filesystem::path path_;
};

}  // namespace dpbench
