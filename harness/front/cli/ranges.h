// Ranges and sequences in lists of numbers: 1-8, and 1,2,4,..,64.
#pragma once

#include <string>

namespace dpbench {

// Returns the list with ranges and sequences written out: "1-4" becomes "1,2,3,4", and "1,2,4,..,16" becomes
// "1,2,4,8,16". Other values stay as they are. Throws a UsageError that names an invalid range or sequence.
std::string expanded_ranges(const std::string& list);

}  // namespace dpbench
