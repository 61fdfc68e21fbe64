// The tool block of a report: the version of dpbench and its command line.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

std::string version();  // version of dpbench, e.g. 0.1.0
// Git commit of dpbench's sources: "a1b2c3d", "a1b2c3d-dirty", or "unknown" outside git.
std::string built_commit();

// Returns the tool block: version, commit and compiler of dpbench, the git commit of the working directory (null
// outside git), and argv.
Json tool_block(const std::vector<std::string>& argv);
// Returns the commit to use in the run id: the working directory's if it has one, else the commit dpbench was built
// from. Empty if the tool block has neither.
std::string run_commit(const Json& tool);

}  // namespace dpbench
