// The error file from which torchrun reports the first failed rank and the reason.
#pragma once

#include <string>

namespace dpbench {

// Writes the file unless it exists already. No-op unless the launcher has set TORCHELASTIC_ERROR_FILE.
void write_error_file(const std::string& reason);

}  // namespace dpbench
