// Values of flags that are numbers with units. Each is above 0, or a UsageError names the flag and the units.
#pragma once

#include <string>
#include <vector>

#include "harness/report/text/quantity.h"

namespace dpbench {

// what: the name of the quantity.
double positive_quantity(const std::string& flag, const std::string& text, const std::vector<Unit>& units,
                         const std::string& what);
// Returns the bytes of --memory; 0 for an empty text.
double parse_memory(const std::string& text);

}  // namespace dpbench
