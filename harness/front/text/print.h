// Output of a command: data on stdout, colour where the stream takes it.
#pragma once

#include <array>
#include <string>

#include "workloads/base/names.h"

namespace dpbench {

// Writes data to stdout; false when it did not all get there (closed pipe, full disk).
bool print(const std::string& text);

enum class Color { automatic, always, never };
template <>
inline constexpr auto enum_names<Color> = std::to_array<std::string_view>({"auto", "always", "never"});

// Whether text on this stream may be coloured: --color, NO_COLOR, a terminal that is not "dumb".
bool coloured(Color color, int descriptor);

}  // namespace dpbench
