// Runs a command of dpbench and returns its exit code. An exception becomes one line on stderr and the matching exit
// code.
#pragma once

#include <functional>

namespace dpbench {

int exit_code_of_command(const std::function<int()>& command);

}  // namespace dpbench
