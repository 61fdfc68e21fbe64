// Helpers shared by the output of `dpbench plan` and of `dpbench project`.
#pragma once

#include <string>

#include "harness/forecast/network.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

// Returns a number as text, or "-" if it is not finite. format: a printf format for one double.
std::string text_of_number(double number, const char* format);

Json to_json(const Network& network);

}  // namespace dpbench
