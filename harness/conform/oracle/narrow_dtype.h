// Detects a wrong gradient that is the correct one rounded to a narrower dtype.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

// Returns a diagnosis such as "rounded to float16 on its way", or an empty string if no rounding explains the gradient.
// found: the reported gradients in float64; only the parameters in `wrong` are read.
std::string rounded_to_narrow_dtype(const Trial& trial, const ExpectedStep& expected, const std::vector<size_t>& wrong,
                                    const std::vector<at::Tensor>& found);

}  // namespace dpbench
