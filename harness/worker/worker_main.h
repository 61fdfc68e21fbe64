// The worker program: runs the process of one rank, or prints the catalogue.
#pragma once

#include <string>
#include <vector>

namespace dpbench {

// Runs the worker and returns its exit code. After serving as a rank, it ends the process instead.
int worker_main(const std::vector<std::string>& arguments);

}  // namespace dpbench
