// The flags, usage, examples and exit codes of a command, as its help prints them; the man page, the completions and
// the Markdown reference read the same tables.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/command.h"

namespace dpbench {

// The first command is the one that bare flags mean; its help lists all commands.
bool is_first(const std::vector<Command>& commands, const Command& command);

// Throws UsageError for an unknown name.
const Command& command_named(const std::vector<Command>& commands, const std::string& name);

// Prepares `app` to parse the command's flags into its options.
void set_up(CLI::App& app, const std::vector<Command>& commands, Command& command);

std::string help_text(const std::vector<Command>& commands, const std::string& name);

// One flag or argument of a command, in the form that man page, completions and reference need.
struct Flag {
  std::string name, short_name;  // "strategy" and "" or "o"; a positional argument has its type as name
  std::string type, help, group;
  bool positional = false;
};

std::string flag_label(const Flag& flag);
std::vector<Flag> flags_of(const std::vector<Command>& commands, Command command);

// Promised to scripts: a code never changes its meaning.
struct ExitMeaning {
  int code;
  std::string meaning;
};

const std::vector<ExitMeaning>& exit_meanings();
std::vector<ExitMeaning> exit_meanings_of(const CommandHelp& help);

struct Variable {
  std::string name, meaning;
};

const std::vector<Variable>& environment_variables();

std::string usage_of(const std::vector<Command>& commands, const Command& command);
std::string example_of(const Example& example);

// Returns `text` with every `old` replaced.
std::string replaced(std::string text, const std::string& old, const std::string& by);

}  // namespace dpbench
