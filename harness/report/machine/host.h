// Reads the host's parts of a report's env block from the /proc and /sys files below Sources::root.
#pragma once

#include <optional>

#include "harness/report/machine/environment.h"

namespace dpbench {

CpuBlock cpu_block(const Sources& sources);
MemoryBlock memory_block(const Sources& sources);
OsBlock os_block(const Sources& sources);
// Returns the CPU and memory limits of this process's cgroup (control group), as set for a container.
LimitsBlock limits_block(const Sources& sources);
std::optional<LoadBlock> load_block(const Sources& sources);  // returns the load average at the start of the run

}  // namespace dpbench
