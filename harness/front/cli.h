// argv -> Options. The flags themselves, their defaults and their help stand in *_flags.cpp.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "harness/front/options.h"

namespace dpbench {

struct CommandInfo {
  std::string name, summary;
};

const std::vector<CommandInfo>& commands();

// Options, or the text that --help or --version asks for. Throws UsageError for everything that is wrong.
std::variant<Options, std::string> parse_command_line(const std::vector<std::string>& arguments);

// Every flag of a command, as "--name".
std::vector<std::string> flags_of(const std::string& command);

}  // namespace dpbench
