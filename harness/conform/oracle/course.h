// A course: several consecutive training steps computed by the oracle (the reference computation), from the state in
// which the strategy began them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

// One rank's state after the last step of a course, and the loss of every step.
struct CourseEnd {
  NamedTensors parameters, buffers, state;
  std::vector<at::Tensor> losses;  // a tensor is undefined if the rank had no samples in that step
  at::Tensor output;               // output of the last step
};

struct Course {
  std::vector<CourseEnd> ranks;
  std::string unknown;  // reason why the course cannot be computed; empty if it was computed
};

// Computes the steps of a scenario. ranks: each rank's parameters, buffers and optimizer state before the first step,
// and the sample ids of every step. exact: compute in float64 throughout; otherwise passes run in the scenario's
// dtype and parameters are rounded to their own dtype after every step, as in a strategy.
Course course_of(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
                 const std::vector<Evidence>& ranks, bool exact);

}  // namespace dpbench
