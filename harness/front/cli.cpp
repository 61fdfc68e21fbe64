#include "harness/front/cli.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <CLI/CLI.hpp>

#include "harness/front/absolute.h"
#include "harness/front/config_file.h"
#include "harness/front/flags.h"
#include "harness/front/text.h"
#include "harness/front/training_flags.h"
#include "harness/report/to_type.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

constexpr char kExamples[] = R"(Examples:
  dpbench                                    all that this machine can run, worlds 1 and 2, quickly
  dpbench --strategy ddp --gpus 1,2,4,8      scaling of one strategy over GPUs
  dpbench --strategy dp,ddp --cpus 1,2 --workload mnist-mlp --scaling strong --batch 512
  dpbench --strategy ddp --cpus 2 --param ddp.bucket_mb=1,25 -o markdown
  dpbench --plugin ./my_strategy.so --strategy mine --cpus 2
  dpbench report latest --html report.html   its charts and tables on one page)";

constexpr char kExitCodes[] = R"(Exit codes:
  0 ok · 1 a check failed or a regression · 2 wrong arguments, files or directories, or nothing
  matched · 3 a run failed (a rank died, hung, ran out of memory, NaN) · 4 inconclusive, with
  --strict of compare or duel · 5 the report could not be written · 77 no such GPU or backend here
  · 128+N signal N

Variables:
  DPBENCH_WORKER (the worker to use) · DPBENCH_PYTHON (one with matplotlib, for report) · TMPDIR
  (private files, when /dev/shm is short) · CUDA_VISIBLE_DEVICES · NO_COLOR)";

struct Command {
  CommandInfo info;
  void (*fill)(CLI::App&, Options&);
};

const std::vector<Command>& command_table() {
  static const std::vector<Command> table = {
      {{"run", "measure strategies (bare flags mean run)"}, add_run},
      {{"check", "prove strategies right: their gradients, buffers and steps against the mathematics"}, add_check},
      {{"train", "train as the documents' programs do: their data, their printed lines, their saved model"}, add_train},
      {{"list", "strategies, workloads, backends, devices; `list ddp` shows one"}, add_list},
      {{"doctor", "what is missing on this machine, and the command that mends it"}, add_env},
      {{"env", "the machine as a report describes it"}, add_env},
      {{"compare", "judge one stored run against another: the gate"}, add_compare},
      {{"duel", "judge two builds by measuring them now, in turn"}, add_duel},
      {{"project", "larger worlds, worked out from a stored run and never measured"}, add_project},
      {{"export", "a stored run in the form of another tool"}, add_export},
      {{"report", "the page and the charts of stored runs"}, add_report},
      {{"validate", "whether reports are whole and agree with themselves"}, add_validate},
  };
  return table;
}

const Command& command_named(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& command : command_table()) {
    if (command.info.name == name) return command;
    known.push_back(command.info.name);
  }
  throw UsageError("unknown command '" + one_line(name, 40) + "'" + did_you_mean(name, known) +
                   "; commands: " + join(known) + "; see " + to_type("--help"));
}

// The first flags follow on one screen with it: what there is more stands below them.
std::string header(const std::string& command) {
  const std::string text = "dpbench " DPBENCH_VERSION ": benchmark and proof of data-parallel strategies on LibTorch\n\n";
  if (command != "run") return text + command_named(command).info.summary + "\n\n";
  return text + "Usage: dpbench [COMMAND] [FLAGS]      without a command: run; all commands stand below\n\n" + kExamples + "\n\n";
}

std::string footer(const std::string& command) {
  if (command != "run") return "";
  std::string text = "Commands (dpbench COMMAND --help):\n";
  for (const auto& info : commands())
    text += "  " + info.name + std::string(10 - info.name.size(), ' ') + info.summary + "\n";
  return text + "\n" + kExitCodes + "\n";
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

std::string help_text(const CLI::App& app, const std::string& command) {
  return header(command) + app.help() + footer(command);
}

void name_app(CLI::App& app, const Command& command, Options& options) {
  app.name(command.info.name == "run" ? "" : "dpbench " + command.info.name);
  app.formatter(std::make_shared<FlagFormatter>());
  app.get_formatter()->column_width(32);
  app.allow_extras();
  app.allow_config_extras(CLI::config_extras_mode::error);
  command.fill(app, options);
  app.set_help_flag("-h,--help", "this text")->group("Output");  // after them: groups stand in the order of their first flags
  if (command.info.name == "run")
    app.set_version_flag("--version", "dpbench " DPBENCH_VERSION)->description("the version")->group("Output");
}

// Of all flags, or of those that take such a value.
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

// A mistyped flag, or a word that no flag takes.
void refuse_extras(const CLI::App& app, const std::string& command) {
  const auto extras = app.remaining();
  if (extras.empty()) return;
  const std::string word = extras.front().substr(0, extras.front().find('='));
  const std::string shown = "'" + one_line(word, 60) + "'";
  const std::string help = "; see " + to_type((command == "run" ? "" : command + " ") + "--help");
  if (word.starts_with('-')) throw UsageError("unknown flag " + shown + flag_meant(app, word) + help);
  throw UsageError("unexpected word " + shown + " (lists take commas, not spaces)" + help);
}

bool any_given(const CLI::App& app, const std::string& group) {
  const auto options = app.get_options([&](const CLI::Option* option) { return option->get_group() == group; });
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) { return option->count() > 0; });
}

// --quick sets what was not set by hand; it is what bare `dpbench` means.
void settle_sampling(const CLI::App& app, Options& o) {
  const bool chosen = any_given(app, "What to run") || any_given(app, "Sampling");
  if (!any_given(app, "What to run")) o.what.default_worlds = {1, 2};
  if (!chosen) o.quick = true;
  if (!o.quick) return;
  if (app.count("--launches") == 0) o.launches = 1;
  if (app.count("--samples") == 0) o.sampling.samples = 3;
  o.sampling.min_sample_s = 0.05;
  if (app.count("--warmup") == 0) o.sampling.warmup = 5;
}

void settle_duel(const CLI::App& app, Options& o) {
  o.what.baseline = false;
  if (app.count("--min-time") == 0) o.sampling.min_sample_s = 0.2;
  if (!any_given(app, "What to run")) o.what.default_worlds = {1, 2};
}

// Checking is not sampling: one launch, no rows added, worlds in which order and sharing out can go wrong.
void settle_checking(Options& o) {
  o.launches = 1;
  o.what.baseline = false;
  o.what.probes = o.what.every_backend = o.what.own_rows = true;
  o.what.whole_worlds = !o.what.workloads.empty() ? kMaxWorld : o.checking.long_form ? 3 : 0;
  o.what.default_worlds = o.checking.long_form ? std::vector<int>{1, 2, 3, 4, 7, 8} : std::vector<int>{1, 3};
  o.checking.filter = std::exchange(o.what.filter, "");
}

// No names mean all of them. A name beside it would not be looked at, and may be a wrong one.
void settle_all(const std::string& flag, std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), "all") == names.end()) return;
  for (const auto& name : names)
    if (name != "all")
      throw UsageError(flag + " " + one_line(join(names, ","), 100) + ": all and '" + one_line(name, 60) +
                       "' do not go together; use " + flag + " all, or names alone");
  names.clear();
}

void settle(const CLI::App& app, const Command& command, Options& o) {
  if (command.info.name == "run") settle_sampling(app, o);
  if (command.info.name == "duel") settle_duel(app, o);
  if (command.info.name == "check") settle_checking(o);
  if (command.info.name == "train") settle_training(o);
  settle_all("--strategy", o.what.strategies);
  settle_all("--workload", o.what.workloads);
  if (!o.what.data_dir.empty()) o.what.data_dir = absolute_path("--data", o.what.data_dir);
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
  return "--config '" + one_line(join(files), 200) + "': unknown key '" + one_line(key, 60) + "'" + did_you_mean(key, keys);
}

std::string plain(const CLI::App& app, const std::string& message) {
  constexpr std::string_view of_a_key = "INI was not able to parse ";
  return message.starts_with(of_a_key) ? unknown_key(app, message.substr(of_a_key.size())) : one_line(message, 300);
}

}  // namespace

const std::vector<CommandInfo>& commands() {
  static const std::vector<CommandInfo> infos = [] {
    std::vector<CommandInfo> all;
    for (const auto& command : command_table()) all.push_back(command.info);
    return all;
  }();
  return infos;
}

std::variant<Options, std::string> parse_command_line(const std::vector<std::string>& arguments) {
  Options options;
  options.argv = arguments;
  std::vector<std::string> rest = arguments;
  if (!rest.empty() && !rest.front().starts_with('-')) {
    options.command = rest.front();
    rest.erase(rest.begin());
  }
  const Command& command = command_named(options.command);
  CLI::App app;
  name_app(app, command, options);
  refuse_lost_values(rest);
  refuse_bad_config(rest);
  std::reverse(rest.begin(), rest.end());  // as CLI11 wants them
  try {
    app.parse(rest);
  } catch (const CLI::CallForHelp&) {
    return help_text(app, options.command);
  } catch (const CLI::CallForVersion&) {
    return std::string("dpbench " DPBENCH_VERSION "\n");
  } catch (const CLI::Error& error) {
    throw UsageError(plain(app, error.what()));
  }
  refuse_extras(app, options.command);
  settle(app, command, options);
  return options;
}

std::vector<std::string> flags_of(const std::string& command) {
  Options unused;
  CLI::App app;
  name_app(app, command_named(command), unused);
  return flag_names(app);
}

}  // namespace dpbench
