// Numbers and parts of a prediction as text.
#pragma once

#include <string>

#include "harness/forecast/plan/predict.h"

namespace dpbench::forecast {

std::string gigabytes(double bytes);  // such as "12.3", in units of 10^9 bytes

// Returns the parts of a step in percent, the largest first, such as "computing 71 %, sums over tp 12 %". Parts below 1
// % are left out.
std::string parts_text(const Time& time);

}  // namespace dpbench::forecast
