// Maps the result of a run to the exit code of dpbench. The exit codes are part of dpbench's documented interface.
#pragma once

#include "harness/report/record/report.h"

namespace dpbench {

struct Ending {
  bool usage = false;  // a usage error, a fault found by doctor, or a duel whose base build fails a check in every case
  bool unsaved = false;       // the report or the output could not be written
  bool failed = false;        // a case failed to run
  bool wrong = false;         // a check failed, a regression was found, or a stored report or a schedule is invalid
  bool inconclusive = false;  // nothing was decided, for example an unproven case or an unclear --strict comparison
  bool unavailable = false;   // none of the requested cases can run on this machine
  int signal = 0;
};

inline constexpr int exit_usage = 2, exit_unavailable = 77;

// Returns the exit code of a run. A run ended by signal N returns 128 + N. Otherwise the first applicable code in the
// order 2, 5, 3, 1, 4, 77 is returned, or 0.
int exit_code(const Ending& ending);

// Derives a run's ending (the input of exit_code()) from the status of the report's cases.
Ending ending_of(const Report& report);

}  // namespace dpbench
