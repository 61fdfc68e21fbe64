// Runs a program that answers on its stdout.
#pragma once

#include <string>

#include "harness/front/process/spawn.h"

namespace dpbench {

struct Captured {
  int status = 0;     // status of waitpid
  bool late = false;  // true: the program took too long and was killed
  std::string output;
};

// Runs a program and captures its stdout. Kills the program after `limit_s` seconds, or if it prints over 4 MiB. Throws
// UsageError if the program cannot be started.
Captured run_and_capture(const Program& program, double limit_s);

}  // namespace dpbench
