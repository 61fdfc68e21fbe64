#include "harness/front/cli/cli.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>

#include "harness/front/cli/help.h"
#include "harness/front/text/text.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Returns the names of a command's flags. type: if not empty, only flags with values of this type.
std::vector<std::string> flag_names(const CLI::App& app, const std::string& type = "") {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (type.empty() || option->get_type_name() == type)
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// Returns a suggestion for a mistyped flag, or an empty string. If the mistyped flag ends in -dir, prefers a flag that
// takes a directory, such as --out for --output-dir.
std::string flag_meant(const CLI::App& app, const std::string& word) {
  const std::string meant = word.ends_with("-dir") ? did_you_mean(word, flag_names(app, "DIR")) : "";
  return meant.empty() ? did_you_mean(word, flag_names(app)) : meant;
}

// Throws UsageError for mistyped flags and unexpected arguments. `command` is the command's name and a space; it is
// empty for `run`, because users may leave out its name.
void refuse_extras(const CLI::App& app, const std::string& command) {
  const auto extras = app.remaining();
  if (extras.empty()) return;
  const std::string word = extras.front().substr(0, extras.front().find('='));
  const std::string shown = "'" + one_line(word, 60) + "'", help = "; see " + shell_command(command + "--help");
  if (word.starts_with('-')) throw UsageError("unknown flag " + shown + flag_meant(app, word) + help);
  const auto takes_words = app.get_options([](const CLI::Option* option) { return option->get_lnames().empty(); });
  const std::string hint = takes_words.empty() ? ": lists take commas, not spaces" : ": too many arguments";
  throw UsageError("unexpected word " + shown + hint + help);
}

// Throws UsageError for a long flag that ends in '=' without a value. CLI11 would take the next argument as its value.
void refuse_lost_values(const std::vector<std::string>& arguments) {
  for (const auto& word : arguments)
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      throw UsageError("'" + one_line(word, 60) + "' has no value. Give one, or leave the flag out");
}

// Throws UsageError for a switch that was given a value, as in --no-baseline=5. CLI11 would accept the value as a
// number or truth value.
void refuse_values_of_switches(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (const auto& word : arguments) {
    if (!word.starts_with("--") || word.find('=') == std::string::npos) continue;
    const std::string flag = word.substr(0, word.find('='));
    const CLI::Option* option = app.get_option_no_throw(flag);
    if (option && option->get_expected_max() == 0)
      throw UsageError("'" + one_line(word, 60) + "': " + flag + " takes no value");
  }
}

std::string plain(const std::string& message) {
  const std::string required = ": 1 required ", missing = " missing";
  const size_t at = message.find(required);
  if (at == std::string::npos || !message.ends_with(missing)) return one_line(message, 300);
  const std::string type = message.substr(at + required.size());
  return message.substr(0, at) + " needs a value: " + type.substr(0, type.size() - missing.size());
}

}  // namespace

std::variant<Command, std::string> parse_command_line(const std::vector<Command>& commands,
                                                      const std::vector<std::string>& arguments) {
  std::vector<std::string> rest = arguments;
  Command command = commands.front();
  if (!rest.empty() && !rest.front().starts_with('-')) {
    command = command_named(commands, rest.front());
    rest.erase(rest.begin());
  }
  if (command.measuring) command.measuring(command.options).argv = arguments;
  CLI::App app;
  set_up(app, commands, command);
  refuse_lost_values(rest);
  refuse_values_of_switches(app, rest);
  std::reverse(rest.begin(), rest.end());  // CLI11 expects the arguments in reverse order
  try {
    app.parse(rest);
  } catch (const CLI::CallForHelp&) {
    return help_text(commands, command.name);
  } catch (const CLI::CallForVersion&) {
    return std::string("dpbench " DPBENCH_VERSION "\n");
  } catch (const CLI::Error& error) {
    throw UsageError(plain(error.what()));
  }
  refuse_extras(app, is_first(commands, command) ? "" : command.name + " ");
  if (command.settle) command.settle(app, command.options);
  return command;
}

}  // namespace dpbench
