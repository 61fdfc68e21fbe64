// Generates the man page and the Markdown reference of all commands.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/command.h"

namespace dpbench {

std::string man_page(const std::vector<Command>& commands);
std::string markdown_reference(const std::vector<Command>& commands);

}  // namespace dpbench
