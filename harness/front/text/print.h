// Writes a command's data to stdout and decides when output is coloured.
#pragma once

#include <array>
#include <string>

#include "workloads/base/names.h"

namespace dpbench {

// Writes data to stdout. Returns false if some of it could not be written (closed pipe, full disk).
bool print(const std::string& text);

enum class Color { automatic, always, never };
template <>
inline constexpr auto enum_names<Color> = std::to_array<std::string_view>({"auto", "always", "never"});

// True if text on this stream may be coloured, given --color, NO_COLOR and TERM.
bool coloured(Color color, int descriptor);

}  // namespace dpbench
