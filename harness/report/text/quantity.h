// Parses numbers with units from the command line, such as 450GB/s.
#pragma once

#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace dpbench {

struct Unit {
  const char* name;
  double factor;
};

// Parses a number followed by one of `units` and returns the number times the unit's factor. Any other text is an
// error: calls `refuse` with the reason; `refuse` must throw. what: name of the quantity in the reason.
inline double quantity(const std::string& text, const std::vector<Unit>& units, const std::string& what,
                       const std::function<void(const std::string& why)>& refuse) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || end == text.c_str() || !std::isfinite(number))
    refuse("no " + what + " in '" + text.substr(0, 40) + "'");
  if (*end == '\0') refuse("the " + what + " '" + text.substr(0, 40) + "' has no unit");
  for (const Unit& unit : units)
    if (std::string(end) == unit.name) return number * unit.factor;
  refuse("unknown unit '" + std::string(end).substr(0, 20) + "' of the " + what);
  return 0;
}

}  // namespace dpbench
