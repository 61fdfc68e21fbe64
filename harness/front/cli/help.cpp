#include "harness/front/cli/help.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>

#include "harness/front/text/fold.h"
#include "harness/front/text/text.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr char title[] = "dpbench " DPBENCH_VERSION ": benchmark and proof of parallelism strategies on LibTorch";

// Formats the flags of a command for its help, without the usage line that CLI11 would add.
class FlagFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override { return ""; }
  std::string make_option_opts(const CLI::Option* option) const override {
    const bool positional = option->get_lnames().empty();
    return positional || option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    if (positional) return option->get_type_name();
    const std::string name = CLI::Formatter::make_option_name(option, positional);
    return name.substr(0, name.find('{'));
  }
  std::string make_group(std::string group, bool positional, std::vector<const CLI::Option*> options) const override {
    return CLI::Formatter::make_group(std::move(group), positional, std::move(options)).erase(0, 1);
  }
};

// Formats a command's examples and aligns their explanations in a column. An example of more than 48 characters does
// not move the column.
std::string examples_text(const Command& command) {
  constexpr size_t longest = 48;
  size_t width = 0;
  for (const Example& example : command.examples)
    if (const size_t size = example_of(example).size(); !example.meaning.empty() && size <= longest)
      width = std::max(width, size);
  std::string text = "Examples:\n";
  for (const Example& example : command.examples) {
    const std::string line = example_of(example);
    text += "  " + line;
    if (!example.meaning.empty())
      text += std::string(line.size() < width ? width - line.size() : 0, ' ') + "   " + example.meaning;
    text += '\n';
  }
  return text;
}

std::string commands_text(const std::vector<Command>& commands) {
  std::string text = "Commands (dpbench COMMAND --help):\n";
  for (const Command& one : commands)
    text += "  " + one.name + std::string(13 - one.name.size(), ' ') + one.summary + "\n";
  return text + "\n";
}

std::string exit_codes_text(const Command& command) {
  std::string text = "Exit codes:\n";
  for (const ExitMeaning& one : exit_meanings_of(command)) {
    const std::string code = std::to_string(one.code);
    text += "  " + code + std::string(5 - code.size(), ' ') + one.meaning + "\n";
  }
  return text;
}

std::string variables_text() {
  std::string text = "\nEnvironment variables:\n";
  for (const EnvironmentVariable& one : environment_variables())
    text += "  " + one.name + std::string(24 - one.name.size(), ' ') + one.meaning + "\n";
  return text;
}

}  // namespace

bool is_first(const std::vector<Command>& commands, const Command& command) {
  return command.name == commands.front().name;
}

const Command& command_named(const std::vector<Command>& commands, const std::string& name) {
  std::vector<std::string> known;
  for (const Command& command : commands) {
    if (command.name == name) return command;
    known.push_back(command.name);
  }
  throw UsageError("unknown command '" + one_line(name, 40) + "'" + did_you_mean(name, known) +
                   "; commands: " + join(known) + "; see " + shell_command("--help"));
}

void set_up(CLI::App& app, const std::vector<Command>& commands, Command& command) {
  const bool first = is_first(commands, command);
  app.name(first ? "" : "dpbench " + command.name);
  app.formatter(std::make_shared<FlagFormatter>());
  app.get_formatter()->column_width(32);
  app.allow_extras();
  command.add_flags(app, command.options);
  // Help groups appear in the order of their first flags, so --help and --version are added last.
  app.set_help_flag("-h,--help", "print this text")->group("Output");
  app.set_version_flag("-V,--version", "dpbench " DPBENCH_VERSION)->description("print the version")->group("Output");
}

std::string help_text(const std::vector<Command>& commands, const std::string& name) {
  Command command = command_named(commands, name);
  CLI::App app;
  set_up(app, commands, command);
  const std::string head = std::string(title) + "\n\nUsage: " + usage_of(commands, command) + "\n\n";
  if (is_first(commands, command))
    return folded_columns(head + examples_text(command) + "\n" + app.help() + commands_text(commands) +
                          exit_codes_text(command) + variables_text());
  return folded_columns(head + command.summary + "\n\n" + examples_text(command) + "\n" + app.help() +
                        exit_codes_text(command));
}

std::string flag_label(const Flag& flag) {
  if (flag.positional) return flag.type;
  const std::string names = (flag.short_name.empty() ? "" : "-" + flag.short_name + ", ") + "--" + flag.name;
  return flag.type.empty() ? names : names + " " + flag.type;
}

std::vector<Flag> flags_of(const std::vector<Command>& commands, Command command) {
  CLI::App app;
  set_up(app, commands, command);
  std::vector<Flag> flags;
  for (const CLI::Option* option : app.get_options()) {
    const bool positional = option->get_lnames().empty();
    flags.push_back({.name = positional ? option->get_type_name() : option->get_lnames().front(),
                     .short_name = option->get_snames().empty() ? "" : option->get_snames().front(),
                     .type = option->get_type_name(),
                     .help = replaced(option->get_description(), "\n", " "),
                     .group = positional ? "Arguments" : option->get_group(),
                     .positional = positional});
  }
  return flags;
}

const std::vector<ExitMeaning>& exit_meanings() {
  static const std::vector<ExitMeaning> all = {
      {0, "success"},
      {1, "a check failed, a case is too slow, an accuracy target was missed, or a file is invalid"},
      {2, "wrong arguments, files or directories; or no case matched"},
      {3, "a case failed: a rank died, hung, ran out of memory or met NaN"},
      {4, "not decided: no gradient judged, checked in part, disturbed, --strict unclear, no layout fits"},
      {5, "the report or the output could not be written"},
      {77, "no case can run here: the GPU or backend is missing"},
      {128, "128+N: ended by signal N"}};
  return all;
}

std::vector<ExitMeaning> exit_meanings_of(const CommandHelp& help) {
  std::vector<ExitMeaning> meanings;
  for (const ExitMeaning& one : exit_meanings())
    if (one.code == 0 || one.code == 2 || one.code == 5 ||
        std::find(help.exit_codes.begin(), help.exit_codes.end(), one.code) != help.exit_codes.end())
      meanings.push_back(one);
  return meanings;
}

const std::vector<EnvironmentVariable>& environment_variables() {
  static const std::vector<EnvironmentVariable> all = {
      {"COLUMNS", "width to which tables fold [the terminal's, else unlimited]"},
      {"CUDA_VISIBLE_DEVICES", "GPUs to use"},
      {"DPBENCH_KEEP_DISTURBED", "1: blocks without their cores count (for tests)"},
      {"DPBENCH_PYTHON", "Python with matplotlib, for report"},
      {"DPBENCH_WORKER", "dpbench-worker to start"},
      {"FORCE_COLOR", "not 0: colors in tables without a terminal; NO_COLOR wins"},
      {"NO_COLOR", "no colors in tables"},
      {"TMPDIR", "private files of a run, if /dev/shm is too small"}};
  return all;
}

std::string usage_of(const std::vector<Command>& commands, const Command& command) {
  if (is_first(commands, command)) return "dpbench [COMMAND] [FLAGS]   (no COMMAND: " + command.name + ")";
  return "dpbench " + command.name + (command.arguments.empty() ? "" : " " + command.arguments);
}

std::string example_of(const Example& example) {
  return "dpbench" + (example.arguments.empty() ? "" : " " + example.arguments);
}

std::string replaced(std::string text, const std::string& old, const std::string& by) {
  for (size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += by.size()) text.replace(at, old.size(), by);
  return text;
}

}  // namespace dpbench
