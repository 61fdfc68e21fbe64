// The files that `check` writes besides its table. They are checked to be writable before anything runs, and not
// changed until there is something to write.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/front/process/fd.h"

namespace dpbench {

// The --junit file. An old file stays until the new one is complete. For a symbolic link, its target is replaced or
// created.
class JunitFile {
 public:
  // An empty path means no file. Throws UsageError if the file is not writable.
  explicit JunitFile(const std::string& path);

  // Returns an error message; empty on success.
  std::string write(const std::string& text) const;

 private:
  std::string shown_, name_;
  Fd folder_;     // the new file is renamed into this folder
  Fd in_place_;   // used for a pipe, a device, or a file in a read-only folder: written in place
  Fd inherited_;  // used for an inherited descriptor like /dev/stdout: appended to earlier output
};

// The --dump directory. It must be empty, so dumps are never mixed. Directories created for it are removed again if
// they stay empty.
class DumpDirectory {
 public:
  // An empty path means no dump. Throws UsageError if the directory is not empty or cannot be created or written.
  explicit DumpDirectory(const std::string& path);
  DumpDirectory(const DumpDirectory&) = delete;
  DumpDirectory& operator=(const DumpDirectory&) = delete;

 private:
  struct Made {
    ~Made();
    std::vector<std::filesystem::path> paths;  // innermost first
  };
  Made made_;
};

}  // namespace dpbench
