// The flag --config: a TOML file whose keys are names of flags.
#pragma once

namespace CLI {
class App;
}

namespace dpbench {

// Adds --config. Reading the file throws UsageError, which names the file and the line, for text that is not TOML, keys
// that are no flags, and values that a flag refuses. The command line wins over the file.
void add_config(CLI::App& app);

}  // namespace dpbench
