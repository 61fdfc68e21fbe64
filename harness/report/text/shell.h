// Commands to be copied into a shell.
#pragma once

#include <string>

namespace dpbench {

// The name by which this program was called. Until it is set, or where it is empty: dpbench.
void set_program_name(const std::string& name);

// This program with these arguments.
std::string shell_command(const std::string& arguments);

// A text as one word of a shell, quoted where it must be.
std::string shell_word(const std::string& text);

}  // namespace dpbench
