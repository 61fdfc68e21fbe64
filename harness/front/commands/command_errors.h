// Turns a command's exception into one line on stderr and an exit code.
#pragma once

#include <functional>

namespace dpbench {

int exit_code_of_command(const std::function<int()>& command);

}  // namespace dpbench
