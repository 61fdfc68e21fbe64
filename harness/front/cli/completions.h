// Generates shell completion scripts (bash, zsh, fish) from the flags of all commands.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/command.h"

namespace dpbench {

std::string bash_completions(const std::vector<Command>& commands);
std::string zsh_completions(const std::vector<Command>& commands);
std::string fish_completions(const std::vector<Command>& commands);

}  // namespace dpbench
