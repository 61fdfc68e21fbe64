// What comes first is for the report; what is below it, a backtrace say, for the log.
#pragma once

#include <string>

namespace dpbench {

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace dpbench
