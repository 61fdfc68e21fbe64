// Error types, available to every part of the project. No torch dependency.
#pragma once

#include <new>
#include <source_location>
#include <stdexcept>
#include <string>

namespace dpbench {

// A mistake in the user's command line or files. The message names the value and the remedy. Exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The request cannot run on this machine (no GPU, backend not built). Exit code 77.
class Unavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// std::bad_alloc that names the component that ran out of host memory.
class OutOfHostMemory : public std::bad_alloc {
 public:
  explicit OutOfHostMemory(const std::string& who) : what_(who + ": out of host memory") {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

// Checks an internal invariant. A failure is a bug or a failed case, never a user error.
inline void check(bool ok, const std::string& message, std::source_location where = std::source_location::current()) {
  if (ok) return;
  throw std::runtime_error(message + " (" + where.file_name() + ":" + std::to_string(where.line()) + ")");
}

}  // namespace dpbench
