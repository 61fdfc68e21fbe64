// What dpbench-micro is asked for.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "harness/micro/team.h"

namespace dpbench::micro {

struct CommandLine {
  MicroAsked asked{};
  std::vector<std::string> passed_on{};  // to Google Benchmark

  bool has(const std::string& start) const {
    return std::any_of(passed_on.begin(), passed_on.end(), [&](auto& word) { return word.starts_with(start); });
  }
};

// Nothing: --help was asked for and printed. Throws UsageError and Unavailable.
std::optional<CommandLine> command_line(int argc, char** argv);

}  // namespace dpbench::micro
