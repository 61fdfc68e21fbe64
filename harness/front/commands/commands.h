// Declares and lists the commands of dpbench.
#pragma once

#include <vector>

#include "harness/front/cli/command.h"

namespace dpbench {

Command advise_command();
Command check_command();
Command collectives_command();
Command compare_command();
Command doctor_command();
Command duel_command();
Command env_command();
Command export_command();
Command help_command();
Command list_command();
Command plan_command();
Command project_command();
Command report_command();
Command run_command();
Command schedule_command();
Command schema_command();
Command train_command();
Command tune_command();
Command validate_command();

// Returns all commands in the order of the help. The first one runs if the command line names no command.
inline std::vector<Command> commands() {
  return {run_command(),    check_command(),    train_command(),    tune_command(),        list_command(),
          doctor_command(), env_command(),      advise_command(),   compare_command(),     duel_command(),
          plan_command(),   project_command(),  schedule_command(), collectives_command(), export_command(),
          report_command(), validate_command(), schema_command(),   help_command()};
}

}  // namespace dpbench
