// The flags of each command, in the groups of its help.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/front/options.h"
#include "harness/front/text.h"
#include "harness/front/validators.h"

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

// One argument a flag, its commas between values. (CLI11's own lists drop an empty value in silence.)
template <class List>
CLI::Option* add_values(CLI::App& app, const std::string& names, List& values, const std::string& help) {
  const std::function<void(const std::vector<std::string>&)> take = [&values](const std::vector<std::string>& given) {
    values.clear();
    for (const auto& list : given)
      for (const auto& value : comma_values(list)) CLI::detail::lexical_cast(value, values.emplace_back());
  };
  return app.add_option_function(names, take, help)->check(no_empty_value())->allow_extra_args(false);
}

}  // namespace dpbench
