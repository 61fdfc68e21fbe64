// What in the env block of a report cannot be, by its schema.
#pragma once

#include <string>
#include <vector>

#include "harness/report/protocol.h"

namespace dpbench {

// Each names its key. Keys that later minor versions added may be absent; unknown ones are ignored.
std::vector<std::string> env_problems(const Json& env);

}  // namespace dpbench
