// Validates the file given with --config before the flag parser (CLI11) reads it.
#pragma once

#include <string>
#include <vector>

namespace dpbench {

// Throws UsageError naming the faulty line of the config file.
void refuse_bad_config(const std::vector<std::string>& arguments);

}  // namespace dpbench
