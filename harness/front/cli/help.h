// The flags, usage, examples and exit codes of commands. The --help text, the man page, the shell completions and the
// Markdown reference are all generated from them.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/command.h"

namespace dpbench {

// True for the first command, which runs if the command line names no command. Its help also lists all commands.
bool is_first(const std::vector<Command>& commands, const Command& command);

// Returns the command with this name. Throws UsageError for an unknown name.
const Command& command_named(const std::vector<Command>& commands, const std::string& name);

// Prepares `app` (the CLI11 parser) to parse the command's flags into the command's options.
void set_up(CLI::App& app, const std::vector<Command>& commands, Command& command);

std::string help_text(const std::vector<Command>& commands, const std::string& name);

// One flag or positional argument of a command, as listed in the man page, the completions and the reference.
struct Flag {
  // Long and short name, such as "output" and "o". A positional argument is named by its type, such as "RUN".
  std::string name, short_name;
  std::string type, help, group;
  bool positional = false;
};

std::string flag_label(const Flag& flag);
std::vector<Flag> flags_of(const std::vector<Command>& commands, Command command);

// An exit code and its meaning. Scripts rely on exit codes, so the meaning of a code never changes.
struct ExitMeaning {
  int code;
  std::string meaning;
};

const std::vector<ExitMeaning>& exit_meanings();
std::vector<ExitMeaning> exit_meanings_of(const CommandHelp& help);

struct EnvironmentVariable {
  std::string name, meaning;
};

const std::vector<EnvironmentVariable>& environment_variables();

std::string usage_of(const std::vector<Command>& commands, const Command& command);
std::string example_of(const Example& example);

// Returns `text` with every occurrence of `old` replaced by `by`.
std::string replaced(std::string text, const std::string& old, const std::string& by);

}  // namespace dpbench
