// The host's part of the env block, each from the files below Sources::root.
#pragma once

#include "harness/report/environment.h"

namespace dpbench {

Json cpu_block(const Sources& sources);
Json memory_block(const Sources& sources);
Json os_block(const Sources& sources);
Json limits_block(const Sources& sources);  // of the cgroup: what a container may use
Json load_block(const Sources& sources);    // when the run began

}  // namespace dpbench
