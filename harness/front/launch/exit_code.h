// Maps the end of a run to an exit code. The table is part of dpbench's documented interface.
#pragma once

#include "harness/report/record/report.h"

namespace dpbench {

struct Ending {
  bool usage = false;         // usage error, found before anything ran
  bool unsaved = false;       // the report or the output could not be written
  bool failed = false;        // a case failed
  bool wrong = false;         // a check failed
  bool inconclusive = false;  // with --strict
  bool unavailable = false;   // no requested case can run here
  int signal = 0;
};

inline constexpr int exit_usage = 2, exit_unavailable = 77;

// A signal N takes precedence and gives 128 + N. The order of the others is 2 > 5 > 3 > 1 > 4 > 77 > 0.
int exit_code(const Ending& ending);

// Derives the ending from the status of the report's cases.
Ending ending_of(const Report& report);

}  // namespace dpbench
