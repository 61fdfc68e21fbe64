// What a rank prints: a file of its own.
#pragma once

#include <filesystem>
#include <string>

#include "harness/front/process/fd.h"

namespace dpbench {

class RankLog {
 public:
  RankLog() = default;
  RankLog(const std::filesystem::path& folder, int rank);

  // Throws UsageError; the file must be new. On a full disk what the rank prints is lost.
  Fd open() const;
  bool flooded() const;
  // Its end, without control characters.
  std::string last_words() const;
  // Dropped when it is empty, cut when it is a flood.
  void tidy() const;

 private:
  std::filesystem::path path_;
};

}  // namespace dpbench
