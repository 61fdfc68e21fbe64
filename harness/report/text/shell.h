// Formats shell commands that messages print for the user to copy.
#pragma once

#include <string>

namespace dpbench {

// Sets the name under which the user called this program, for use in printed commands. The default, also for an empty
// name, is "dpbench".
void set_program_name(const std::string& name);

// Returns the shell command that runs this program with these arguments.
std::string shell_command(const std::string& arguments);

// Returns the text as one shell word, quoted if necessary.
std::string shell_word(const std::string& text);

}  // namespace dpbench
