// Which known mistake a wrong gradient looks like: each mistake leaves a signature that can be worked out and compared.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

// `wrong`: the parameters whose gradients are off. Empty when nothing known looks like them.
std::string likely_mistake(const Trial& trial, int64_t step, int rank, const std::vector<size_t>& wrong);

}  // namespace dpbench
