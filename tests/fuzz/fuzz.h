// Common parts of the fuzz targets; each target is one file. libFuzzer (scripts/fuzz) or replay.cpp (with stored
// inputs) calls LLVMFuzzerTestOneInput. For any input, a parser must either accept it or throw UsageError.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "workloads/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace dpbench::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// An in-memory file with a path in /proc, for parsers that open files.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (fd_ < 0 || write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
    lseek(fd_, 0, SEEK_SET);
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

// Returns true if `parse` succeeds, and false if it throws UsageError with a message. Any other exception counts as a
// crash.
template <class Parse>
bool accepted(Parse parse) {
  try {
    parse();
    return true;
  } catch (const UsageError& error) {
    if (std::string_view(error.what()).empty()) std::abort();
    return false;
  }
}

inline void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace dpbench::fuzz
