// Fits the computing time of a training step and the latency and bandwidth of its messages to the step times measured
// in several worlds (numbers of replicas).
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "harness/forecast/project/step_model.h"

namespace dpbench {

struct Fit {
  double compute_s = 0;         // computing time of a step in world 1
  double latency_s = 0;         // latency of one message
  double seconds_per_byte = 0;  // reciprocal bandwidth; 0: unlimited bandwidth
  double error = 0;             // root mean square of the relative errors over the worlds
  Network network() const;      // returns a network with the fitted latency and bandwidth between all devices
};

struct WorldTime {
  int world = 1;
  double step_s = 0;
};

// Fits a step's computing time, message latency and bandwidth, all >= 0, by minimising the squared relative errors of
// the predicted step times. Needs three or more worlds.
Fit fit_steps(const StepShape& shape, Algorithm algorithm, const std::vector<WorldTime>& times);

// Returns the x >= 0 that minimises |A x - b| for A = rows and b = goal, found by trying every set of nonzero elements
// of x.
std::array<double, 3> nonnegative_least_squares(const std::vector<std::array<double, 3>>& rows,
                                                const std::vector<double>& goal);

}  // namespace dpbench
