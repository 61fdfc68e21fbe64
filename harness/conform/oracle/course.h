// A course: several consecutive training steps computed by the oracle (the reference computation), from the state in
// which the strategy began them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

// One rank's state after the last step of a course, and the loss of every step.
struct CourseEnd {
  NamedTensors parameters, buffers, state;
  std::vector<at::Tensor> losses;  // loss of each step; undefined for a step in which the rank had no samples
  at::Tensor output;               // output of the last step
};

// A rounding to bfloat16 in SGD's steps: a mistake whose error is below the bound of every single element.
struct HiddenRounding {
  std::string what;      // names the rounded tensors, e.g. "the gradients"
  NamedTensors changes;  // changes of rank 0's parameters by the mistake, at the end of the course
};

struct Course {
  std::vector<CourseEnd> ranks;
  // The fields stepwise and hidden_roundings are filled only by a course computed in float64 for a scenario in float32
  // with SGD. stepwise: rank 0's parameters if they are rounded to their own dtype after every step, as in a strategy.
  // hidden_roundings: mistakes on which rank 0's parameters vote (see Votes). Both are empty if ranks take different
  // optimizer steps or if gradients are communicated in a narrower dtype.
  NamedTensors stepwise = {};
  std::vector<HiddenRounding> hidden_roundings = {};
  std::string unknown;      // reason why the course cannot be computed; empty if it was computed
  bool unreported = false;  // true if the reason is a tensor that the strategy does not report, or in another size
};

// Computes the steps of a scenario. ranks: each rank's parameters, buffers and optimizer state before the first step,
// and the sample ids of every step. exact: compute in float64 throughout; otherwise passes run in the scenario's dtype
// and parameters are rounded to their own dtype after every step, as in a strategy. jitter: if not 0, a seed with which
// each pass moves the parameters by up to a unit in the last place. Values near a discontinuity, such as an activation
// near a ReLU's zero, may then fall on the other side of it.
Course course_of(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
                 const std::vector<Evidence>& ranks, bool exact, uint64_t jitter = 0);

// Returns the largest distance that an element of any parameter of a rank moves during the course.
double largest_move(const Trial& trial, const Course& course, size_t rank);

}  // namespace dpbench
