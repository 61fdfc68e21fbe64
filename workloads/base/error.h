// Error types used in every part of the project. Does not depend on torch.
#pragma once

#include <new>
#include <source_location>
#include <stdexcept>
#include <string>

namespace dpbench {

// Thrown for a mistake in the user's command line or files. The message names the value and the remedy. The process
// exits with code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown by a strategy that cannot train this kind of model, such as one without a sequence, experts or enough blocks.
class UnsuitableModel : public UsageError {
 public:
  using UsageError::UsageError;
};

// Thrown if this machine or this LibTorch cannot run the request (no GPU, backend not built). The process exits with
// code 77.
class Unavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An out-of-memory error that names the component that ran out of host memory.
class OutOfHostMemory : public std::bad_alloc {
 public:
  explicit OutOfHostMemory(const std::string& who) : what_(who + ": out of host memory") {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

// Throws if an internal invariant is violated. A failure is a bug or a failed case, never a user error.
inline void check(bool ok, const std::string& message, std::source_location where = std::source_location::current()) {
  if (ok) return;
  throw std::runtime_error(message + " (" + where.file_name() + ":" + std::to_string(where.line()) + ")");
}

}  // namespace dpbench
