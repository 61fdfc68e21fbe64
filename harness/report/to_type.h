// Commands to be copied into a shell.
#pragma once

#include <string>

namespace dpbench {

// This program with these arguments, under the name by which it was called: DPBENCH_CALLED, or just dpbench.
std::string to_type(const std::string& arguments);

// A text as one word of a shell, quoted where it must be.
std::string shell_word(const std::string& text);

}  // namespace dpbench
