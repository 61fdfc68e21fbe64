// Flags of the commands that start worker processes: run, check, train, tune and duel.
#pragma once

#include "harness/front/cli/options.h"

namespace CLI {
class App;
}

namespace dpbench {

void add_run_flags(CLI::App& app, RunOptions& options);
void add_check_flags(CLI::App& app, CheckingOptions& options);
void add_train_flags(CLI::App& app, TrainingOptions& options);
void add_tune_flags(CLI::App& app, TuneOptions& options);
void add_duel_flags(CLI::App& app, DuelOptions& options);

// These functions complete a command's options after its flags have been parsed: they derive options from combinations
// of flags, and throw UsageError for contradictory flags.
void settle_run(const CLI::App& app, RunOptions& options);
void settle_check(const CLI::App& app, CheckingOptions& options);
void settle_train(const CLI::App& app, TrainingOptions& options);
void settle_tune(const CLI::App& app, TuneOptions& options);
void settle_duel(const CLI::App& app, DuelOptions& options);

}  // namespace dpbench
