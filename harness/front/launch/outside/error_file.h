// The file that torchrun reads to say which rank failed first, and why.
#pragma once

#include <string>

namespace dpbench {

// Once; the first reason stays. Nothing where no launcher asked for it (TORCHELASTIC_ERROR_FILE).
void write_error_file(const std::string& reason);

}  // namespace dpbench
