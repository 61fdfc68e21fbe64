// The log file with the stdout and stderr of one rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

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
  // Returns the lines written since the last call, without LibTorch's own warnings and infos. Holds an unfinished last
  // line back until it is finished, exceeds 64 KiB, or the rank has ended.
  std::vector<std::string> new_lines(bool ended);
  // Returns the last lines of the log without control characters and stack traces of LibTorch.
  std::string tail() const;
  // Removes the log file if it is empty, and truncates it if it is too large.
  void tidy() const;

 private:
  std::filesystem::path path_;
  uintmax_t taken_ = 0;  // number of bytes read by new_lines()
  std::string unended_;  // beginning of an unfinished line, which new_lines() holds back
};

}  // namespace dpbench
