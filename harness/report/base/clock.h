// Reads a POSIX clock in nanoseconds.
#pragma once

#include <cstdint>
#include <ctime>

namespace dpbench {

inline int64_t clock_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace dpbench
