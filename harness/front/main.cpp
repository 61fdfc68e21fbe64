// The program dpbench: which command, and who carries it out.
#include <cstdlib>
#include <map>

#include "harness/front/cli.h"
#include "harness/front/commands.h"
#include "harness/front/exit_code.h"
#include "harness/front/guard.h"
#include "harness/front/launched/run_launched.h"
#include "harness/front/signals.h"

namespace dpbench {
namespace {

using Command = int (*)(const Options&);

int run_options(const Options& options) {
  static const std::map<std::string, Command> kCommands = {
      {"run", run_command},         {"check", check_command},     {"train", train_command},
      {"list", list_command},       {"doctor", doctor_command},   {"env", env_command},
      {"duel", duel_command},       {"compare", compare_command}, {"export", export_command},
      {"project", project_command}, {"report", report_command},   {"validate", validate_command}};
  const Command command = kCommands.at(options.command);
  const auto placement = find_placement(options.launcher);
  return placement ? run_launched(options, *placement, command) : command(options);
}

int dispatch(const std::vector<std::string>& arguments) {
  return guarded([&] {
    const auto parsed = parse_command_line(arguments);
    if (const auto* options = std::get_if<Options>(&parsed)) return run_options(*options);
    return exit_code({.unsaved = !print(std::get<std::string>(parsed))});
  });
}

}  // namespace
}  // namespace dpbench

int main(int count, char** words) {
  dpbench::prepare_process();
  ::setenv("DPBENCH_CALLED", words[0], /*overwrite=*/0);  // for the commands that it suggests
  return dpbench::dispatch({words + 1, words + count});
}
