#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "harness/front/commands.h"

namespace dpbench {

bool print(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

bool coloured(const std::string& choice, int descriptor) {
  if (choice != "auto") return choice == "always";
  const char* no = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return !(no && *no) && term && *term && std::strcmp(term, "dumb") != 0 && ::isatty(descriptor);
}

}  // namespace dpbench
