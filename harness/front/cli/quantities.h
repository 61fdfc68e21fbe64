// Parses flag values that have a unit, such as 24GiB. Throws a UsageError that names the flag and the units unless the
// text is a number above 0 with one of the units.
#pragma once

#include <string>
#include <vector>

#include "harness/report/text/quantity.h"

namespace dpbench {

// `what` names the quantity in error messages, for example "size".
double positive_quantity(const std::string& flag, const std::string& text, const std::vector<Unit>& units,
                         const std::string& what);
// Parses the value of --memory. Returns bytes; 0 for an empty text.
double parse_memory(const std::string& text);

}  // namespace dpbench
