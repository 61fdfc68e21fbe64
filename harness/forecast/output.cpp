#include "harness/forecast/output.h"

#include <cmath>
#include <cstdio>

namespace dpbench {

std::string text_of_number(double number, const char* format) {
  if (!std::isfinite(number)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

}  // namespace dpbench
