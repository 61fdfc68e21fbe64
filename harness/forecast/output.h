// What the outputs of `plan` and `project` have in common.
#pragma once

#include <string>

#include "harness/forecast/network.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

// Returns a number as text, "-" if it is not finite. format: of printf, for one double.
std::string text_of_number(double number, const char* format);

Json to_json(const Network& network);

}  // namespace dpbench
