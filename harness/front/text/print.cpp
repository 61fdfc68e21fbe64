#include "harness/front/text/print.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "harness/report/record/save.h"

namespace dpbench {

bool print(const std::string& text) { return write_all(STDOUT_FILENO, text); }

size_t terminal_columns(int descriptor, size_t least, size_t otherwise) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > least ? size.ws_col : otherwise;
}

size_t output_columns(size_t least, size_t otherwise) {
  const char* columns = std::getenv("COLUMNS");
  const size_t asked = columns ? std::strtoul(columns, nullptr, 10) : 0;
  return asked > least ? asked : terminal_columns(STDOUT_FILENO, least, otherwise);
}

size_t fold_width() { return output_columns(20, 0); }

bool coloured(Color color, int descriptor) {
  if (color != Color::automatic) return color == Color::always;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  const std::string force = variable("FORCE_COLOR"), term = variable("TERM");
  if (!variable("NO_COLOR").empty()) return false;
  if (!force.empty() && force != "0") return true;
  return !term.empty() && term != "dumb" && ::isatty(descriptor);
}

}  // namespace dpbench
