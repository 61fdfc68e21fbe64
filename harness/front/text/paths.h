// Resolves a path against the working directory.
#pragma once

#include <filesystem>
#include <string>

#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {

// flag: what the user gave it with. A working directory that is gone is the user's to mend: UsageError.
inline std::filesystem::path absolute_path(const std::string& flag, const std::string& path) {
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(path, failed);
  if (!failed) return whole;
  throw UsageError(flag + " '" + one_line(path, 200) + "': the working directory is gone (" + failed.message() +
                   "); change to another one");
}

}  // namespace dpbench
