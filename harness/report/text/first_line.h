// Returns the first line of an error text, the only part kept in a report; the rest, such as a backtrace, goes to the
// log.
#pragma once

#include <string>

namespace dpbench {

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace dpbench
