// The host's part of the env block, each from the files below Sources::root.
#pragma once

#include <optional>

#include "harness/report/machine/environment.h"

namespace dpbench {

CpuBlock cpu_block(const Sources& sources);
MemoryBlock memory_block(const Sources& sources);
OsBlock os_block(const Sources& sources);
LimitsBlock limits_block(const Sources& sources);             // of the cgroup: what a container may use
std::optional<LoadBlock> load_block(const Sources& sources);  // when the run began

}  // namespace dpbench
