// dpbench help: prints a command's help, or generates the man page, shell completions or Markdown reference.
#include <functional>
#include <string>
#include <vector>

#include "harness/front/cli/completions.h"
#include "harness/front/cli/flags.h"
#include "harness/front/cli/help.h"
#include "harness/front/cli/manual.h"
#include "harness/front/commands/commands.h"
#include "harness/front/launch/exit_code.h"
#include "harness/front/plan/catalogue.h"
#include "harness/front/text/print.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

struct HelpForm {
  std::string name;
  std::string (*text)(const std::vector<Command>&);
};

const std::vector<HelpForm>& forms() {
  static const std::vector<HelpForm> all = {{"man", man_page},
                                            {"markdown", markdown_reference},
                                            {"bash", bash_completions},
                                            {"zsh", zsh_completions},
                                            {"fish", fish_completions}};
  return all;
}

struct HelpOptions {
  std::string command, as;
};

void add_flags(CLI::App& app, HelpOptions& o) {
  app.add_option("command", o.command, "the command to explain [run]")->type_name("COMMAND");
  app.add_option("--as", o.as, "all commands as man page, Markdown or shell completions")
      ->check(one_of(names_of(forms())))
      ->type_name(join(names_of(forms()), "|"));
}

int print_help(const HelpOptions& options) {
  if (!options.as.empty() && !options.command.empty())
    throw UsageError("--as " + options.as + " covers all commands; leave out '" + one_line(options.command, 40) + "'");
  const auto all = commands();
  const HelpForm* form = find_entry(forms(), options.as);
  const std::string name = options.command.empty() ? all.front().name : options.command;
  return exit_code({.unsaved = !print(form ? form->text(all) : help_text(all, name))});
}

}  // namespace

Command help_command() {
  return reading_command({.name = "help",
                          .arguments = "[COMMAND] [FLAGS]",
                          .summary = "explain a command; print man page or shell completions",
                          .examples = {{"help compare", "usage, examples, flags, exit codes"},
                                       {"help --as bash > dpbench.bash", "completions for bash"}},
                          .exit_codes = {}},
                         add_flags, print_help);
}

}  // namespace dpbench
