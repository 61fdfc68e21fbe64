// Resolves a path against the working directory.
#pragma once

#include <filesystem>
#include <string>

#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {

// Returns the absolute path. `flag` is the flag that gave the path, for error messages. Throws UsageError if the
// working directory no longer exists.
inline std::filesystem::path absolute_path(const std::string& flag, const std::string& path) {
  std::error_code failed;
  const std::filesystem::path resolved = std::filesystem::absolute(path, failed);
  if (!failed) return resolved;
  throw UsageError(flag + " '" + one_line(path, 200) + "': the working directory is gone (" + failed.message() +
                   "). Change to another directory.");
}

}  // namespace dpbench
