// The error file in which torchrun looks for the first failed rank and the reason of its failure.
#pragma once

#include <string>

namespace dpbench {

// Writes torchrun's error file unless it already exists. Does nothing unless the launcher has set
// TORCHELASTIC_ERROR_FILE.
void write_error_file(const std::string& reason);

}  // namespace dpbench
