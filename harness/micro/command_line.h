// The command line of dpbench-micro.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/cli/collectives_flags.h"

namespace dpbench::micro {

struct CommandLine {
  CollectivesOptions asked{};
  bool others = false;                   // also run the benchmarks that are not collectives
  std::vector<std::string> passed_on{};  // arguments passed on to Google Benchmark

  bool has(const std::string& start) const {
    return std::any_of(passed_on.begin(), passed_on.end(), [&](auto& word) { return word.starts_with(start); });
  }
};

// Parses the command line. Returns nullopt after printing --help. Throws UsageError for invalid arguments, and
// Unavailable for --device cuda if the CUDA library cannot be loaded.
std::optional<CommandLine> command_line(int argc, char** argv);

// Sets the worlds (numbers of ranks) to `usual` if --world is not given. Throws UsageError if one is above `most`, or
// if --pairs is given with a world of 1 only.
void settle_worlds(CollectivesOptions& asked, int usual, int most);

}  // namespace dpbench::micro
