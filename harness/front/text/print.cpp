#include "harness/front/text/print.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "harness/report/record/save.h"

namespace dpbench {

bool print(const std::string& text) { return write_all(STDOUT_FILENO, text); }

size_t terminal_columns(int descriptor, size_t least, size_t otherwise) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > least ? size.ws_col : otherwise;
}

bool coloured(Color color, int descriptor) {
  if (color != Color::automatic) return color == Color::always;
  const char* no = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return !(no && *no) && term && *term && std::strcmp(term, "dumb") != 0 && ::isatty(descriptor);
}

}  // namespace dpbench
