// Fuzzes the parser of the command line. Each line of the input is one argument.
#include "harness/front/cli/cli.h"
#include "harness/front/commands/commands.h"
#include "tests/fuzz/fuzz.h"

using namespace dpbench;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> words(1);
  for (const char c : fuzz::text_of(data, size)) {
    if (c == '\0') return 0;  // skip this input: program arguments cannot contain NUL
    if (c == '\n')
      words.emplace_back();
    else
      words.back() += c;
  }
  fuzz::accepted([&] { parse_command_line(commands(), words); });
  return 0;
}
