#include "harness/front/cli/cli.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include "harness/front/cli/config_file.h"
#include "harness/front/text/text.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr char examples[] = R"(Examples:
  dpbench                                    all that this machine can run, worlds 1 and 2, quickly
  dpbench --strategy ddp --gpus 1,2,4,8      scaling of one strategy over GPUs
  dpbench --strategy dp,ddp --cpus 1,2 --workload mnist-mlp --scaling strong --batch 512
  dpbench --strategy ddp --cpus 2 --param ddp.bucket_mb=1,25 -o markdown
  dpbench --plugin ./my_strategy.so --strategy mine --cpus 2
  dpbench report latest --html report.html   its charts and tables on one page)";

constexpr char exit_codes[] = R"(Exit codes:
  0 ok · 1 a check failed or a regression · 2 wrong arguments, files or directories, or nothing
  matched · 3 a run failed (a rank died, hung, ran out of memory, NaN) · 4 inconclusive, with
  --strict of compare or duel · 5 the report could not be written · 77 no such GPU or backend here
  · 128+N signal N

Variables:
  DPBENCH_WORKER (the worker to use) · DPBENCH_PYTHON (one with matplotlib, for report) · TMPDIR
  (private files, when /dev/shm is short) · CUDA_VISIBLE_DEVICES · NO_COLOR)";

// The first one is what bare flags mean, and its help is the program's.
bool is_first(const std::vector<Command>& commands, const Command& command) {
  return command.name == commands.front().name;
}

const Command& command_named(const std::vector<Command>& commands, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& command : commands) {
    if (command.name == name) return command;
    known.push_back(command.name);
  }
  throw UsageError("unknown command '" + one_line(name, 40) + "'" + did_you_mean(name, known) +
                   "; commands: " + join(known) + "; see " + shell_command("--help"));
}

// Flags alone: the usage stands in the header.
class FlagFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override { return ""; }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, positional);
    return name.substr(0, name.find('{'));
  }
  std::string make_group(std::string group, bool positional, std::vector<const CLI::Option*> options) const override {
    return CLI::Formatter::make_group(std::move(group), positional, std::move(options)).erase(0, 1);
  }
};

// The program's first flags stand on one screen with its usage: what there is more stands below them.
std::string help_text(const CLI::App& app, const std::vector<Command>& commands, const Command& command) {
  const std::string title =
      "dpbench " DPBENCH_VERSION ": benchmark and proof of data-parallel strategies on LibTorch\n\n";
  if (!is_first(commands, command)) return title + command.summary + "\n\n" + app.help();
  std::string known = "Commands (dpbench COMMAND --help):\n";
  for (const auto& one : commands)
    known += "  " + one.name + std::string(10 - one.name.size(), ' ') + one.summary + "\n";
  return title + "Usage: dpbench [COMMAND] [FLAGS]      without a command: run; all commands stand below\n\n" +
         examples + "\n\n" + app.help() + known + "\n" + exit_codes + "\n";
}

void set_up(CLI::App& app, const std::vector<Command>& commands, Command& command) {
  const bool first = is_first(commands, command);
  app.name(first ? "" : "dpbench " + command.name);
  app.formatter(std::make_shared<FlagFormatter>());
  app.get_formatter()->column_width(32);
  app.allow_extras();
  app.allow_config_extras(CLI::config_extras_mode::error);
  command.add_flags(app, command.options);
  app.set_help_flag("-h,--help", "this text")
      ->group("Output");  // after them: groups stand in the order of their first flags
  if (first) app.set_version_flag("--version", "dpbench " DPBENCH_VERSION)->description("the version")->group("Output");
}

// Names of all flags, or only of those whose value has this form.
std::vector<std::string> flag_names(const CLI::App& app, const std::string& type = "") {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (type.empty() || option->get_type_name() == type)
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// --output-dir is --out, which takes a directory, and not --output.
std::string flag_meant(const CLI::App& app, const std::string& word) {
  const std::string meant = word.ends_with("-dir") ? did_you_mean(word, flag_names(app, "DIR")) : "";
  return meant.empty() ? did_you_mean(word, flag_names(app)) : meant;
}

// A mistyped flag, or a word that no flag takes. command: as it is typed before its flags.
void refuse_extras(const CLI::App& app, const std::string& command) {
  const auto extras = app.remaining();
  if (extras.empty()) return;
  const std::string word = extras.front().substr(0, extras.front().find('='));
  const std::string shown = "'" + one_line(word, 60) + "'", help = "; see " + shell_command(command + "--help");
  if (word.starts_with('-')) throw UsageError("unknown flag " + shown + flag_meant(app, word) + help);
  throw UsageError("unexpected word " + shown + " (lists take commas, not spaces)" + help);
}

// CLI11 would take the next word for the value.
void refuse_lost_values(const std::vector<std::string>& arguments) {
  for (const auto& word : arguments)
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      throw UsageError("'" + one_line(word, 60) + "' has no value; leave the flag out, or give one");
}

std::string unknown_key(const CLI::App& app, const std::string& key) {
  std::vector<std::string> keys;
  for (const auto& flag : flag_names(app)) keys.push_back(flag.substr(2));
  const auto files = app.get_config_ptr()->as<std::vector<std::string>>();
  return "--config '" + one_line(join(files), 200) + "': unknown key '" + one_line(key, 60) + "'" +
         did_you_mean(key, keys);
}

std::string plain(const CLI::App& app, const std::string& message) {
  constexpr std::string_view of_a_key = "INI was not able to parse ";
  return message.starts_with(of_a_key) ? unknown_key(app, message.substr(of_a_key.size())) : one_line(message, 300);
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
  refuse_bad_config(rest);
  std::reverse(rest.begin(), rest.end());  // as CLI11 wants them
  try {
    app.parse(rest);
  } catch (const CLI::CallForHelp&) {
    return help_text(app, commands, command);
  } catch (const CLI::CallForVersion&) {
    return std::string("dpbench " DPBENCH_VERSION "\n");
  } catch (const CLI::Error& error) {
    throw UsageError(plain(app, error.what()));
  }
  refuse_extras(app, is_first(commands, command) ? "" : command.name + " ");
  if (command.settle) command.settle(app, command.options);
  return command;
}

std::vector<std::string> flags_of(const std::vector<Command>& commands, const std::string& name) {
  Command command = command_named(commands, name);
  CLI::App app;
  set_up(app, commands, command);
  return flag_names(app);
}

}  // namespace dpbench
