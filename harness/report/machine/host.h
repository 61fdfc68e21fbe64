// Reads the host's parts of a report's env block from files of /proc, /sys, /etc and /run. Tests give another root
// directory (Sources::root).
#pragma once

#include <optional>

#include "harness/report/machine/environment.h"

namespace dpbench {

CpuBlock cpu_block(const Sources& sources);
MemoryBlock memory_block(const Sources& sources);
OsBlock os_block(const Sources& sources);
// Returns the CPU and memory limits of this process's cgroup (control group), as set for a container.
LimitsBlock limits_block(const Sources& sources);
std::optional<LoadBlock> load_block(const Sources& sources);  // returns the current load averages

}  // namespace dpbench
