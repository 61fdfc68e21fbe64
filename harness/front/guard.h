// What becomes of a command's errors: one line on stderr and an exit code.
#pragma once

#include <functional>

namespace dpbench {

int guarded(const std::function<int()>& command);

}  // namespace dpbench
