// Writes a command's output to stdout and decides whether the output is coloured.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "workloads/base/names.h"

namespace dpbench {

// Writes text to stdout. Returns false if some of the text could not be written (closed pipe, full disk).
bool print(const std::string& text);

// Returns the width in columns of the terminal on `descriptor`. Returns `otherwise` if `descriptor` is not a terminal
// or the width is at most `least`.
size_t terminal_columns(int descriptor, size_t least, size_t otherwise);

// Returns the width in columns for output on stdout: COLUMNS if it is above `least`, else that of the terminal.
size_t output_columns(size_t least, size_t otherwise);
// Returns the width in columns to which tables and sentences on stdout fold; 0: no limit.
size_t fold_width();

enum class Color { automatic, always, never };
template <>
inline constexpr auto enum_names<Color> = std::to_array<std::string_view>({"auto", "always", "never"});

// True if the stream `descriptor` may be coloured. --color decides; else NO_COLOR, then FORCE_COLOR, then TERM and
// whether the stream is a terminal.
bool coloured(Color color, int descriptor);

}  // namespace dpbench
