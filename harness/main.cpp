// The program dpbench: parse, prepare, plan, measure, report, exit.
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include "harness/front/cli/cli.h"
#include "harness/front/commands/command_errors.h"
#include "harness/front/commands/commands.h"
#include "harness/front/commands/run_launched.h"
#include "harness/front/launch/exit_code.h"
#include "harness/front/process/signals.h"
#include "harness/front/run/run.h"
#include "harness/front/text/print.h"
#include "harness/report/text/shell.h"

namespace dpbench {
namespace {

// run, check, train and duel.
int carry_out(Run& run) {
  run.prepare();
  run.plan();
  if (run.dry()) return exit_code(run.print_plan());
  run.measure();
  return exit_code(run.report());
}

// Under an outside launcher this process is one of several with the same command line, of which one speaks.
int measure(Command& command) {
  MeasuringOptions& options = command.measuring(command.options);
  const auto start = [&](World* world) { return carry_out(*command.start(command.options, world)); };
  const auto placement = find_placement(options.started_by);
  return placement ? run_launched(options, *placement, start) : start(nullptr);
}

// A command that only looks at the build, the machine or stored runs.
int read(const Command& command) {
  const auto placement = find_placement(StartedBy::automatic);
  return placement && placement->rank > 0 ? 0 : command.read(command.options);
}

int dispatch(const std::vector<std::string>& arguments) {
  auto parsed = parse_command_line(commands(), arguments);
  if (const auto* text = std::get_if<std::string>(&parsed)) return exit_code({.unsaved = !print(*text)});
  auto& command = std::get<Command>(parsed);
  return command.measuring ? measure(command) : read(command);
}

}  // namespace
}  // namespace dpbench

int main(int count, char** words) {
  dpbench::prepare_process();
  const char* called = std::getenv("DPBENCH_CALLED");  // by a script that stands for this program
  dpbench::set_program_name(called ? called : words[0]);
  return dpbench::exit_code_of_command([&] { return dpbench::dispatch({words + 1, words + count}); });
}
