// How a run ended, as one number. The table is part of what dpbench promises.
#pragma once

#include "harness/report/record/report.h"

namespace dpbench {

struct Ending {
  bool usage = false;         // found before anything ran
  bool unsaved = false;       // the report or the output could not be written
  bool failed = false;        // a case failed
  bool wrong = false;         // a check failed
  bool inconclusive = false;  // with --strict
  bool unavailable = false;   // nothing of what was asked for can run here
  int signal = 0;
};

inline constexpr int exit_usage = 2, exit_unavailable = 77;

// A signal before all else: 128 + N. Then 2 > 5 > 3 > 1 > 4 > 77 > 0.
int exit_code(const Ending& ending);

// What the cases of a report say about its ending.
Ending ending_of(const Report& report);

}  // namespace dpbench
