// Compares a strategy's state after several steps, between which only the loss is read, with a course: the same steps,
// taken by the oracle.
#pragma once

#include <string>

#include "harness/conform/judges/rows.h"
#include "harness/conform/oracle/course.h"

namespace dpbench {

// The largest error of all compared values, each in units of its bound. `where` and `likely` describe the first
// failure.
struct Deviation {
  double error = 0;
  std::string where = {}, likely = {};
};

// Compares losses, the last output, parameters and buffers of every rank. expected: the course in float64. rounded: the
// same course in the strategy's dtypes, which shows how much rounding changes it. Null: the bound is that of a single
// pass in the scenario's dtype, which is narrower.
Deviation course_deviation(const Trial& trial, const Course& expected, const Course* rounded);
// Compares the optimizer's state, slot by slot. Slots that the strategy does not report are not compared.
Deviation state_deviation(const Trial& trial, const Course& expected, const Course* rounded);

// Runs the checks trajectory and optimizer-state on the scenario `unwatched`, in which only the loss is read between
// steps.
void judge_unwatched(const Trial& trial, Rows& rows);

// Runs the check load-other-state on the scenario `other-state`, in which the strategy loads a state before its first
// step.
void judge_other_state(const Trial& trial, Rows& rows);

}  // namespace dpbench
