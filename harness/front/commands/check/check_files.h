// The files that `dpbench check` writes besides its table: the JUnit report and the tensor dumps. dpbench checks that
// they are writable before any case runs. Existing files change only when results are written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/front/process/fd.h"

namespace dpbench {

// The JUnit report file named by --junit. An old file stays until the new one is complete, unless its directory is
// read-only: then the old file is overwritten. A symbolic link is followed, and its target is replaced or created.
class JunitFile {
 public:
  // An empty path means that no JUnit file is written. Throws UsageError if the file is not writable.
  explicit JunitFile(const std::string& path);

  // Writes the JUnit report. Returns an error message; empty on success.
  std::string write(const std::string& text) const;

 private:
  std::string shown_, name_;
  Fd folder_;  // for a regular file: directory into which the complete new report is renamed
  // For a pipe, a device, or a file in a read-only directory: the descriptor to which the report is written in place.
  Fd in_place_;
  Fd inherited_;  // for a path like /dev/stdout: the descriptor to which the report is appended
};

// The directory for tensor dumps named by --dump. It must be empty, so that dumps of two runs never mix. Directories
// created for the dump are removed at the end if they are still empty.
class DumpDirectory {
 public:
  // An empty path means that no dump is written. Throws UsageError if the directory is not empty, or cannot be created
  // or written.
  explicit DumpDirectory(const std::string& path);
  DumpDirectory(const DumpDirectory&) = delete;
  DumpDirectory& operator=(const DumpDirectory&) = delete;

 private:
  struct Made {
    ~Made();
    std::vector<std::filesystem::path> paths;  // directories created for the dump, innermost first
  };
  Made made_;
};

}  // namespace dpbench
