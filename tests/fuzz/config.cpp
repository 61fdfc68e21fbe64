// Fuzzes the parser of the configuration file that --config names.
#include "harness/front/cli/cli.h"
#include "harness/front/commands/commands.h"
#include "tests/fuzz/fuzz.h"

using namespace dpbench;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const fuzz::MemoryFile file(text);
  fuzz::accepted([&] { parse_command_line(commands(), {"--config", file.path()}); });
  return 0;
}
