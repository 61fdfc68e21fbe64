// Fits computing time, latency and bandwidth to the step times of several worlds.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "harness/report/projection/step_model.h"

namespace dpbench {

struct Fit {
  double compute_s = 0;         // computing time of a step in world 1
  double latency_s = 0;         // per message
  double seconds_per_byte = 0;  // 0: unlimited bandwidth
  double error = 0;             // root mean square of the relative errors over the worlds
  Network network() const;      // the same link between all devices
};

struct WorldTime {
  int world = 1;
  double step_s = 0;
};

// Minimises the squared relative errors, with all parameters >= 0. Needs three worlds or more.
Fit fit_steps(const StepShape& shape, Algorithm algorithm, const std::vector<WorldTime>& times);

// Minimises |A x - b| over x >= 0 by trying every set of nonzero columns.
std::array<double, 3> nonnegative_least_squares(const std::vector<std::array<double, 3>>& rows,
                                                const std::vector<double>& goal);

}  // namespace dpbench
