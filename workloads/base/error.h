// Errors: the one header that every part of the project may include. Knows no torch.
#pragma once

#include <new>
#include <source_location>
#include <stdexcept>
#include <string>

namespace dpbench {

// A mistake in what the user asked for or handed in: the message names the value and the way out. Exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What was asked for cannot run on this machine (no GPU, backend not built): exit code 77.
class Unavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Memory of the host that could not be had, and who wanted it: for whoever handles errors by their type still that.
class OutOfHostMemory : public std::bad_alloc {
 public:
  explicit OutOfHostMemory(const std::string& who) : what_(who + ": out of host memory") {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

// An invariant of ours: its failure is a bug or a failed case, never the user's mistake.
inline void check(bool ok, const std::string& message, std::source_location where = std::source_location::current()) {
  if (ok) return;
  throw std::runtime_error(message + " (" + where.file_name() + ":" + std::to_string(where.line()) + ")");
}

}  // namespace dpbench
