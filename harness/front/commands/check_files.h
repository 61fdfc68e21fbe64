// What check writes besides its table: seen to be writable before anything runs, and not touched before there is
// something to write.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/front/process/fd.h"

namespace dpbench {

// --junit: the old one stays until the new one is whole. A link stays too: what it points to is replaced, or made.
class JunitFile {
 public:
  explicit JunitFile(const std::string& path);  // empty: none. UsageError where it could not be written

  // What went wrong; empty: nothing.
  std::string write(const std::string& text) const;

 private:
  std::string shown_, name_;
  Fd folder_;  // renamed into it ..
  Fd itself_;  // .. but for a pipe, a device, or a file in a folder that takes no new one: written in place
  Fd given_;   // a descriptor that whoever started this had opened, as /dev/stdout: after what was written to it before
};

// --dump: never mixed with an older dump. What was made for it goes again where nothing was put into it.
class DumpDirectory {
 public:
  explicit DumpDirectory(
      const std::string& path);  // empty: none. UsageError where it cannot be made, written or is in use
  DumpDirectory(const DumpDirectory&) = delete;
  DumpDirectory& operator=(const DumpDirectory&) = delete;

 private:
  struct Made {
    ~Made();
    std::vector<std::filesystem::path> paths;  // the innermost first
  };
  Made made_;
};

}  // namespace dpbench
