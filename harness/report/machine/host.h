// The host's parts of the env block, read from the files below Sources::root.
#pragma once

#include <optional>

#include "harness/report/machine/environment.h"

namespace dpbench {

CpuBlock cpu_block(const Sources& sources);
MemoryBlock memory_block(const Sources& sources);
OsBlock os_block(const Sources& sources);
LimitsBlock limits_block(const Sources& sources);             // cgroup limits, as in a container
std::optional<LoadBlock> load_block(const Sources& sources);  // at the start of the run

}  // namespace dpbench
