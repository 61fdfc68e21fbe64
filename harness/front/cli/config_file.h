// --config: what is wrong with the file before the command line's parser reads it.
#pragma once

#include <string>
#include <vector>

namespace dpbench {

// Throws UsageError with the file's line.
void refuse_bad_config(const std::vector<std::string>& arguments);

}  // namespace dpbench
