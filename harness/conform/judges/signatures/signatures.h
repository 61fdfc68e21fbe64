// Finds the likely cause of a wrong gradient by comparing it with the gradients that known bugs would produce.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

// Returns the description of the known bug that explains the wrong gradient; an empty string if none does. wrong:
// indices of the parameters with wrong gradients.
std::string likely_mistake(const Trial& trial, int64_t step, int rank, const std::vector<size_t>& wrong);

}  // namespace dpbench
