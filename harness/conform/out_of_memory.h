// Whether an exception says that memory is not there: of a device or of the host, by whichever allocator.
#pragma once

#include <exception>
#include <new>
#include <string>

#include <c10/util/Exception.h>

namespace dpbench {

inline bool out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const c10::OutOfMemoryError*>(&error)) return true;
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch && std::string(of_torch->what_without_backtrace()).find("can't allocate memory") != std::string::npos;
}

}  // namespace dpbench
