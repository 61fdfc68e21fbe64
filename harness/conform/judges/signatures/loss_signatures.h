// Finds the mistake that explains a wrong loss.
#pragma once

#include <cstddef>
#include <string>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

// Returns the likely mistake behind the loss that a rank reported for a step. right_output: true if the rank's output
// is correct. bound: allowed relative error of the loss.
std::string likely_loss_mistake(const Trial& trial, size_t rank, size_t step, bool right_output, double bound);

}  // namespace dpbench
