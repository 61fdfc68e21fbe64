#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "harness/front/commands.h"
#include "harness/report/save.h"

namespace dpbench {

bool print(const std::string& text) { return write_all(STDOUT_FILENO, text); }

bool coloured(const std::string& choice, int descriptor) {
  if (choice != "auto") return choice == "always";
  const char* no = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return !(no && *no) && term && *term && std::strcmp(term, "dumb") != 0 && ::isatty(descriptor);
}

}  // namespace dpbench
