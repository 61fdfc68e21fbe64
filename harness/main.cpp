// Entry point of dpbench: parses the command line and runs the command.
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

// Runs the steps of a measuring command (run, check, train, tune or duel) and returns its exit code.
int execute(Run& run) {
  run.prepare();
  run.plan();
  if (run.dry()) return exit_code(run.print_plan());
  run.measure();
  return exit_code(run.report());
}

// Runs a measuring command and returns its exit code. Under an outside launcher (torchrun, mpirun, srun), this process
// is only one rank of the run.
int measure(Command& command) {
  MeasuringOptions& options = command.measuring(command.options);
  const auto start = [&](World* world) { return execute(*command.start(command.options, world)); };
  const auto placement = find_placement(options.started_by);
  return placement ? run_launched(options, *placement, start) : start(nullptr);
}

// Runs a command that runs no cases. Under an outside launcher, only rank 0 runs it and the other ranks return 0,
// unless Command::on_every_rank is set.
int inspect(const Command& command) {
  const auto placement = find_placement(StartedBy::automatic);
  return placement && placement->rank > 0 && !command.on_every_rank ? 0 : command.read(command.options);
}

int dispatch(const std::vector<std::string>& arguments) {
  auto parsed = parse_command_line(commands(), arguments);
  if (const auto* text = std::get_if<std::string>(&parsed)) return exit_code({.unsaved = !print(*text)});
  auto& command = std::get<Command>(parsed);
  return command.measuring ? measure(command) : inspect(command);
}

}  // namespace
}  // namespace dpbench

int main(int argc, char** argv) {
  dpbench::prepare_process();
  const char* called = std::getenv("DPBENCH_CALLED");  // program name to print, set by scripts/dpbench
  dpbench::set_program_name(called ? called : argv[0]);
  return dpbench::exit_code_of_command([&] { return dpbench::dispatch({argv + 1, argv + argc}); });
}
