// Latency, bandwidth and computing from the step times of several worlds.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "harness/report/projection/step_model.h"

namespace dpbench {

struct Fit {
  double compute_s = 0;         // of a step alone
  double latency_s = 0;         // of a message
  double seconds_per_byte = 0;  // 0: no world is slower for its bytes
  double error = 0;             // root of the mean squared relative error over the worlds
  Network network() const;      // one link everywhere
};

struct WorldTime {
  int world = 1;
  double step_s = 0;
};

// The least squares of relative errors, with nothing below 0. Three worlds or more.
Fit fit_steps(const StepShape& shape, Algorithm algorithm, const std::vector<WorldTime>& times);

// min |A x - b| over x >= 0, by trying every set of columns that may be above 0.
std::array<double, 3> least_squares_above_0(const std::vector<std::array<double, 3>>& rows,
                                            const std::vector<double>& goal);

}  // namespace dpbench
