// Finds the likely cause of a wrong gradient by comparing it with the gradients that known bugs would produce.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

// wrong: indices of the parameters with wrong gradients. Returns an empty string if no known bug matches.
std::string likely_mistake(const Trial& trial, int64_t step, int rank, const std::vector<size_t>& wrong);

}  // namespace dpbench
