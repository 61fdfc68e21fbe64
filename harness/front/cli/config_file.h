// Validates a --config file before CLI11 reads it.
#pragma once

#include <string>
#include <vector>

namespace dpbench {

// Throws UsageError with the offending line.
void refuse_bad_config(const std::vector<std::string>& arguments);

}  // namespace dpbench
