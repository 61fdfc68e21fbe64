// The flags of `dpbench train` alone, and what they mean for the rest.
#pragma once

#include <CLI/CLI.hpp>

#include "harness/front/options.h"

namespace dpbench {

void add_training(CLI::App& app, Options& options);
// Training is one case, once. Throws UsageError for flags that contradict each other.
void settle_training(Options& options);

}  // namespace dpbench
