// Detects a wrong gradient that is the correct one rounded to a narrower dtype.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

// Returns e.g. "rounded to float16 on its way", or an empty string. found: gradients by parameter in float64; only
// those in `wrong` are read.
std::string rounded_to_narrow_dtype(const Trial& trial, const ExpectedStep& expected, const std::vector<size_t>& wrong,
                                    const std::vector<at::Tensor>& found);

}  // namespace dpbench
