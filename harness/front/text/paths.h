// Resolves a path against the working directory.
#pragma once

#include <filesystem>
#include <string>

#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {

// `flag` names the origin of the path in the message. Throws UsageError if the working directory no longer exists.
inline std::filesystem::path absolute_path(const std::string& flag, const std::string& path) {
  std::error_code failed;
  const std::filesystem::path resolved = std::filesystem::absolute(path, failed);
  if (!failed) return resolved;
  throw UsageError(flag + " '" + one_line(path, 200) + "': the working directory is gone (" + failed.message() +
                   "). Change to another directory.");
}

}  // namespace dpbench
