// Runs a command and returns its exit code. Turns an exception into one line on stderr and the matching exit code.
#pragma once

#include <functional>

namespace dpbench {

int exit_code_of_command(const std::function<int()>& command);

}  // namespace dpbench
