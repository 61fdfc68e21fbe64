// Formats the figures of a prediction as text.
#pragma once

#include <string>

#include "harness/forecast/plan/predict.h"

namespace dpbench::forecast {

std::string gigabytes(double bytes);  // formats bytes as a number of gigabytes (10^9 bytes), such as "12.3"

// Returns the parts of a step as percentages, largest first, such as "computing 71 %, sums over tp 12 %". Leaves out
// parts below 1 %.
std::string parts_text(const Time& time);
// Returns the parts of a rank's memory as percentages, largest first, such as "memory: activations 60 %, parameters 24
// %".
std::string parts_text(const Memory& memory);

}  // namespace dpbench::forecast
