#include "harness/report/machine/tool.h"

#include <array>
#include <cstdio>
#include <memory>

#include "harness/report/machine/commit.h"

namespace dpbench {
namespace {

// Returns the first line that a shell command prints, or an empty string if there is none.
std::string first_output_line(const char* command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command, "re"), ::pclose);
  std::array<char, 128> line{};
  if (!pipe || !std::fgets(line.data(), line.size(), pipe.get())) return "";
  std::string text = line.data();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::string version() { return DPBENCH_VERSION; }

std::string built_commit() { return DPBENCH_COMMIT; }

Json tool_block(const std::vector<std::string>& argv) {
  const std::string here = first_output_line("git describe --always --dirty --abbrev=7 --exclude='*' 2>/dev/null");
  return {{"name", "dpbench"},
          {"version", version()},
          {"commit", built_commit()},
          {"compiler", DPBENCH_COMPILER},
          {"build_type", DPBENCH_BUILD_TYPE},
          {"directory_commit", here.empty() ? Json(nullptr) : Json(here)},
          {"argv", argv}};
}

std::string run_commit(const Json& tool) {
  for (const char* key : {"directory_commit", "commit"})
    if (tool.contains(key) && tool.at(key).is_string()) return tool.at(key).get<std::string>();
  return "";
}

}  // namespace dpbench
