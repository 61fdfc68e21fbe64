// Validates the file given with --config before the flag parser (CLI11) reads it.
#pragma once

#include <string>
#include <vector>

namespace dpbench {

// Throws UsageError if the file after --config in `arguments` is malformed (the message names the line), missing, not a
// regular file, or larger than 1 MiB.
void refuse_bad_config(const std::vector<std::string>& arguments);

}  // namespace dpbench
