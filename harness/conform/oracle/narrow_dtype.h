// Whether a wrong gradient is the right one rounded to a narrower type on its way, and to which.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

// "rounded to float16 on its way"; empty where it is not. `found`: by parameter, in float64, those of `wrong` at least.
std::string rounded_to_narrow_dtype(const Trial& trial, const ExpectedStep& expected, const std::vector<size_t>& wrong,
                                    const std::vector<at::Tensor>& found);

}  // namespace dpbench
