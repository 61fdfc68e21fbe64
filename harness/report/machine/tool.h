// The tool block of a report: which dpbench this is and where it was called.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

std::string version();       // 0.1.0
std::string built_commit();  // of dpbench's own source, "a1b2c3d" or "a1b2c3d-dirty"; "unknown" outside git

// Version, commit and compiler of this dpbench, commit of the working directory (null outside git), argv.
Json tool_block(const std::vector<std::string>& argv);
// The commit that a run's id carries: the working directory's, else dpbench's own.
std::string run_commit(const Json& tool);

}  // namespace dpbench
