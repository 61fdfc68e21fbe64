// Helpers that define command-line flags: enum values, lists and help groups. Also defines flags that several commands
// share: stored runs, output format, table columns and sort order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/front/cli/options.h"
#include "harness/front/cli/validators.h"
#include "harness/front/text/text.h"

namespace dpbench {

// Returns a function that assigns a flag to the help group `group` and sets its value type.
inline auto in_group(const char* group) {
  return [group](CLI::Option* option, const char* type) { option->group(group)->type_name(type); };
}

template <Named Enum>
std::vector<Enum> all_values() {
  std::vector<Enum> all;
  for (size_t i = 0; i < enum_names<Enum>.size(); ++i) all.push_back(static_cast<Enum>(i));
  return all;
}

// Adds a flag that accepts the names of an enum's values. `Value` is the enum, an optional of the enum, or bool. A bool
// becomes false for the enum's first value and true for all others.
template <Named Enum, class Value>
CLI::Option* add_named(CLI::App& app, const std::string& names, Value& value, const std::string& help,
                       const std::vector<Enum>& allowed = all_values<Enum>()) {
  const std::function<void(const std::string&)> take = [&value](const std::string& word) {
    const Enum parsed = parse_name<Enum>(word).value();
    value = static_cast<Value>(parsed);
  };
  std::vector<std::string> words;
  for (const Enum one : allowed) words.push_back(name_of(one));
  return app.add_option_function(names, take, help)->check(one_of(words))->type_name(join(words, "|"));
}

// Adds a flag with comma-separated values. CLI11's own list parsing is not used because it silently drops empty values.
template <class List>
CLI::Option* add_values(CLI::App& app, const std::string& names, List& values, const std::string& help) {
  const std::function<void(const std::vector<std::string>&)> take = [&values](const std::vector<std::string>& given) {
    values.clear();
    for (const auto& list : given)
      for (const auto& value : comma_values(list))
        if constexpr (Named<typename List::value_type>)
          values.push_back(*parse_name<typename List::value_type>(value));
        else
          CLI::detail::lexical_cast(value, values.emplace_back());
  };
  return app.add_option_function(names, take, help)->check(no_empty_value())->allow_extra_args(false);
}

inline CLI::Option* add_output(CLI::App& app, Form& output, const std::vector<Form>& forms) {
  return add_named<Form>(app, "-o,--output", output, "format on stdout [table]", forms);
}

inline void add_view(CLI::App& app, TableView& view) {
  add_values(app, "--columns", view.columns, "columns of the table or CSV, as in strategy,step,memory")
      ->type_name("NAME,..");
  app.add_option("--sort", view.sort, "column to sort by; NAME:desc from the largest")->type_name("NAME[:desc]");
}

// Stored runs named on the command line. Each is a file, a directory, "latest", "latest~N" or the name of a saved
// baseline.
struct StoredRuns {
  std::vector<std::string> runs;
  std::string results = "results";
};

inline void add_runs(CLI::App& app, StoredRuns& stored, const std::string& help) {
  app.add_option("runs", stored.runs, help)->type_name("RUN");
  app.add_option("--results", stored.results, "directory of latest, latest~N and baselines [results]")
      ->type_name("DIR");
}

}  // namespace dpbench
