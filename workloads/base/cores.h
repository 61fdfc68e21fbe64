// Which cores of this machine a thread may run on. Knows no torch.
#pragma once

#include <sched.h>

#include <vector>

namespace dpbench {

// How many this thread may run on; where that cannot be told, all that there could be.
inline int usable_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : CPU_SETSIZE;
}

// While this lives, this thread runs on these cores only; threads and programs that it starts meanwhile inherit them
// and keep them. Empty: nothing changes.
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
