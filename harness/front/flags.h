// The flags of each command, in the groups of its help.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "harness/front/options.h"

namespace dpbench {

void add_run(CLI::App& app, Options& options);
void add_check(CLI::App& app, Options& options);
void add_train(CLI::App& app, Options& options);
void add_duel(CLI::App& app, Options& options);
void add_list(CLI::App& app, Options& options);
void add_env(CLI::App& app, Options& options);
void add_compare(CLI::App& app, Options& options);
void add_project(CLI::App& app, Options& options);
void add_export(CLI::App& app, Options& options);
void add_report(CLI::App& app, Options& options);
void add_validate(CLI::App& app, Options& options);

// One argument a flag, its commas between values.
template <class List>
CLI::Option* add_values(CLI::App& app, const std::string& names, List& values, const std::string& help) {
  return app.add_option(names, values, help)->delimiter(',')->allow_extra_args(false);
}

}  // namespace dpbench
