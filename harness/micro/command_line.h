// The command line of dpbench-micro.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "harness/micro/team.h"

namespace dpbench::micro {

struct CommandLine {
  MicroOptions asked{};
  std::vector<std::string> passed_on{};  // arguments passed on to Google Benchmark

  bool has(const std::string& start) const {
    return std::any_of(passed_on.begin(), passed_on.end(), [&](auto& word) { return word.starts_with(start); });
  }
};

// Parses the command line. Returns nullopt after printing --help. Throws UsageError for invalid arguments, and
// Unavailable for --device cuda if the CUDA library cannot be loaded.
std::optional<CommandLine> command_line(int argc, char** argv);

}  // namespace dpbench::micro
