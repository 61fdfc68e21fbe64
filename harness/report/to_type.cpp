#include "harness/report/to_type.h"

#include <cstdlib>

namespace dpbench {

std::string to_type(const std::string& arguments) {
  const char* called = std::getenv("DPBENCH_CALLED");
  return shell_word(called && *called ? called : "dpbench") + " " + arguments;
}

std::string shell_word(const std::string& text) {
  if (text.find_first_of(" \t\n'\"\\$`&|;<>()*?[]{}~#!") == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace dpbench
