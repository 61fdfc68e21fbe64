// Functions that return an exception's message and recognize errors: out of memory, or an operation that a backend
// lacks.
#pragma once

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <string>

#include <c10/util/Exception.h>

namespace dpbench {

// Returns the exception's message, without torch's backtrace.
inline std::string message_of(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch ? of_torch->what_without_backtrace() : error.what();
}

// True for out-of-memory errors of the host or a device, from any allocator. torch has an exception of its own only for
// its caching allocator. Its CPU allocator, CUDA calls, NCCL, cuBLAS and cuDNN report it only in the message.
inline bool out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const c10::OutOfMemoryError*>(&error)) return true;
  if (!dynamic_cast<const c10::Error*>(&error)) return false;
  const std::string text = message_of(error);
  return std::ranges::any_of(std::array{"can't allocate memory", "CUDA error: out of memory", "'out of memory'",
                                        "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"},
                             [&](const char* part) { return text.find(part) != std::string::npos; });
}

// True if the error is c10d's report that the backend does not support an operation. c10d throws it before any
// communication, so no rank waits for another.
inline bool lacks_operation(const std::exception& error) {
  return dynamic_cast<const c10::Error*>(&error) && message_of(error).starts_with("Backend ") &&
         message_of(error).find(" does not support ") != std::string::npos;
}

}  // namespace dpbench
