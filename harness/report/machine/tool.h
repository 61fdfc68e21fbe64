// The tool block of a report: the version of dpbench and its command line.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

std::string version();       // 0.1.0
std::string built_commit();  // of dpbench's sources: "a1b2c3d", "a1b2c3d-dirty", or "unknown" outside git

// Returns version, commit and compiler of dpbench, the commit of the working directory (null outside git), and argv.
Json tool_block(const std::vector<std::string>& argv);
// Returns the commit for the run id: the working directory's, else dpbench's own.
std::string run_commit(const Json& tool);

}  // namespace dpbench
