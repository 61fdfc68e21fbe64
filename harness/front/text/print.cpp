#include "harness/front/text/print.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "harness/report/record/save.h"

namespace dpbench {

bool print(const std::string& text) { return write_all(STDOUT_FILENO, text); }

bool coloured(Color color, int descriptor) {
  if (color != Color::automatic) return color == Color::always;
  const char* no = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return !(no && *no) && term && *term && std::strcmp(term, "dumb") != 0 && ::isatty(descriptor);
}

}  // namespace dpbench
