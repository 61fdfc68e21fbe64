// Returns the CPU cores that this process may use.
#pragma once

#include <sched.h>

#include <cstddef>
#include <vector>

namespace dpbench {

inline std::vector<int> own_cores() {
  cpu_set_t all;
  CPU_ZERO(&all);
  sched_getaffinity(0, sizeof all, &all);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<size_t>(core), &all)) cores.push_back(core);
  return cores;
}

}  // namespace dpbench
