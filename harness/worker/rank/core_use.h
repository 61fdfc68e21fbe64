// Measures whether this process's threads wait for CPU cores: CPU time, involuntary switches, time in the run queue.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

namespace dpbench {

class CoreUse {
 public:
  // Starts a measurement.
  CoreUse();

  struct Spent {
    int64_t wall_ns = 0;   // time since the measurement began
    int64_t cpu_ns = 0;    // CPU time of all threads
    int64_t switches = 0;  // involuntary context switches of all threads
    // Time for which a thread was ready to run but had no core: the longest time of one thread, among the calling
    // thread and the threads that were ready or running for a quarter of the measurement. Unset if the kernel does not
    // report this time.
    std::optional<int64_t> queue_ns{};

    // Returns a lower bound of the CPU time used in a part of the measurement that lasted part_ns. Assumes that at most
    // one thread ran in the rest of the measurement.
    int64_t cpu_within(int64_t part_ns) const { return std::max<int64_t>(0, cpu_ns - (wall_ns - part_ns)); }
  };
  // Returns the CPU time, context switches and queueing time since the measurement began.
  Spent spent() const;

 private:
  struct Thread {
    int64_t running_ns = 0, queued_ns = 0;
  };
  // Returns each thread's times in /proc/self/task/TID/schedstat; empty if the kernel does not report them.
  static std::map<int, Thread> threads();

  int64_t wall_ns_, cpu_ns_, switches_;
  std::map<int, Thread> threads_;
};

}  // namespace dpbench
