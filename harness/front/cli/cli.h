// Parses the command line (argv) into a command with its options.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "harness/front/cli/command.h"

namespace dpbench {

// Returns the command with the user's options, or the text to print for --help or --version. If `arguments` is empty or
// begins with a flag, the command is the first of `commands`. Throws UsageError for invalid arguments.
std::variant<Command, std::string> parse_command_line(const std::vector<Command>& commands,
                                                      const std::vector<std::string>& arguments);

}  // namespace dpbench
