// Compares a strategy's state after several steps with a course: the same steps, taken by the oracle. During the
// strategy's steps, only the loss is read.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/judges/course_bounds.h"
#include "harness/conform/judges/rows.h"
#include "harness/conform/oracle/course.h"

namespace dpbench {

// The largest error of all values compared with a course, each error in units of the value's bound. `where` and
// `likely` describe the first value above its bound.
struct Deviation {
  double error = 0;
  std::string where = {}, likely = {};

  // Adds the error of one value. A NaN counts as infinity. place: where the value is. mistake: its likely cause. Both
  // texts are evaluated only for the first failure.
  void add(double more, const LazyText& place, const LazyText& mistake = "");
};

// Compares losses, the last step's output, parameters and buffers of every rank after several steps with `expected`,
// the course in float64.
Deviation course_deviation(const Trial& trial, const Course& expected, const RoundingErrors& rounding);
// Compares the tensors of the optimizer's state with those of a course by name. A tensor that the strategy does not
// report is not compared.
Deviation state_deviation(const Trial& trial, const Course& expected, const RoundingErrors& rounding);

struct Deviations {
  Deviation course, state;
};
// Returns both deviations of a strategy from `expected`, a course in float64: those of course_deviation() and
// state_deviation(). If the strategy rounds and its error is above the bound, courses in the strategy's dtypes widen
// the bound. They are computed one by one, until the error is within the bound or too large to come from rounding.
Deviations deviations_of(const Trial& trial, const Course& expected);

// Runs the checks trajectory and optimizer-state on the scenario `unwatched`, in which only the loss is read between
// steps.
void judge_unwatched(const Trial& trial, Rows& rows);

// Runs the check load-other-state on the scenario `other-state`, in which the strategy loads a state before its first
// step.
void judge_other_state(const Trial& trial, Rows& rows);

}  // namespace dpbench
