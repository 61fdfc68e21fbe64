// Compares a strategy's state after several steps, between which only the loss is read, with a course: the same steps,
// taken by the oracle.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/judges/rows.h"
#include "harness/conform/oracle/course.h"

namespace dpbench {

// The largest error of all compared values, each in units of its bound. `where` and `likely` describe the first
// failure.
struct Deviation {
  double error = 0;
  std::string where = {}, likely = {};

  // Adds the error of one value. A NaN counts as infinity. The texts are evaluated only for the first failure.
  void add(double more, const LazyText& place, const LazyText& mistake = "");
};

// Compares losses, the last step's output, parameters and buffers of every rank after several steps. expected: the same
// steps computed in float64. rounded: the same steps computed in the strategy's dtypes, several times with different
// roundings, which show how much rounding changes them. Without them, the bounds allow only the rounding error of a
// single pass in the scenario's dtype (in float64: of the whole course).
Deviation course_deviation(const Trial& trial, const Course& expected, const std::vector<Course>& rounded);
// Compares the optimizer's state tensors by name. Tensors that the strategy does not report are not compared.
Deviation state_deviation(const Trial& trial, const Course& expected, const std::vector<Course>& rounded);

struct Deviations {
  Deviation course, state;
};
// Returns course_deviation() and state_deviation() for a course in float64. Computes rounded courses only while an
// error is above its bound.
Deviations deviations_of(const Trial& trial, const Course& expected);

// Runs the checks trajectory and optimizer-state on the scenario `unwatched`, in which only the loss is read between
// steps.
void judge_unwatched(const Trial& trial, Rows& rows);

// Runs the check load-other-state on the scenario `other-state`, in which the strategy loads a state before its first
// step.
void judge_other_state(const Trial& trial, Rows& rows);

}  // namespace dpbench
