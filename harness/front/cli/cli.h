// argv -> a command with its options.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "harness/front/cli/command.h"

namespace dpbench {

// The command with the options that the user gave, or the text that --help or --version asks for. The first of
// `commands` is the one that bare flags mean. Throws UsageError for everything that is wrong.
std::variant<Command, std::string> parse_command_line(const std::vector<Command>& commands,
                                                      const std::vector<std::string>& arguments);

// Every flag of a command, as "--name".
std::vector<std::string> flags_of(const std::vector<Command>& commands, const std::string& name);

}  // namespace dpbench
