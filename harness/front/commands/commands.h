// The commands of dpbench. Each has its own file and is registered here.
#pragma once

#include <vector>

#include "harness/front/cli/command.h"

namespace dpbench {

Command check_command();
Command compare_command();
Command doctor_command();
Command duel_command();
Command env_command();
Command export_command();
Command help_command();
Command list_command();
Command project_command();
Command report_command();
Command run_command();
Command schema_command();
Command train_command();
Command validate_command();

// Returns the commands in the order of the help. The first is the default for a command line of flags only.
inline std::vector<Command> commands() {
  return {run_command(),    check_command(),    train_command(),  list_command(),    doctor_command(),
          env_command(),    compare_command(),  duel_command(),   project_command(), export_command(),
          report_command(), validate_command(), schema_command(), help_command()};
}

}  // namespace dpbench
