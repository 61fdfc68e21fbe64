// Sets and queries the CPU affinity of threads. Does not depend on torch.
#pragma once

#include <sched.h>

#include <vector>

namespace dpbench {

// Returns the number of cores this thread may run on, or CPU_SETSIZE if the kernel does not report it.
inline int usable_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : CPU_SETSIZE;
}

// Pins the current thread to `cores` for the lifetime of the object. Threads and processes started meanwhile inherit
// the affinity and keep it. No-op if `cores` is empty.
class OnCores {
 public:
  explicit OnCores(const std::vector<int>& cores) : changed_(!cores.empty()) {
    if (!changed_) return;
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    for (const int core : cores) CPU_SET(static_cast<size_t>(core), &chosen);
    sched_setaffinity(0, sizeof chosen, &chosen);
  }
  ~OnCores() {
    if (changed_) sched_setaffinity(0, sizeof before_, &before_);
  }
  OnCores(const OnCores&) = delete;
  OnCores& operator=(const OnCores&) = delete;

 private:
  bool changed_;
  cpu_set_t before_{};
};

}  // namespace dpbench
