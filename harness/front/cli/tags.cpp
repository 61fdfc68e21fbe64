#include "harness/front/cli/tags.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/front/text/text.h"

namespace dpbench {
namespace {

// Parses a --tag text (KEY=VALUE) and adds it to `tags`. Throws CLI::ValidationError for a malformed or too long text,
// or a repeated key.
void add_tag(const std::string& text, std::map<std::string, std::string>& tags) {
  const size_t at = text.find('=');
  const std::string key = text.substr(0, at), shown = "'" + one_line(text, 60) + "'";
  const bool named = at != std::string::npos && !key.empty() && std::ranges::all_of(key, [](unsigned char c) {
                       return std::isalnum(c) || c == '_' || c == '-' || c == '.';
                     });
  if (!named)
    throw CLI::ValidationError("--tag", shown + " is not KEY=VALUE, as in pr=12; a key has letters, digits, _ - and .");
  if (text.size() > 200) throw CLI::ValidationError("--tag", shown + " has more than 200 characters");
  if (!tags.emplace(key, sanitised(text.substr(at + 1))).second)
    throw CLI::ValidationError("--tag", shown + ": the key '" + key + "' is given twice");
}

}  // namespace

void add_tags(CLI::App& app, std::map<std::string, std::string>& tags) {
  const std::function<void(const std::vector<std::string>&)> take_tags =
      [&tags](const std::vector<std::string>& given) {
        tags.clear();
        for (const std::string& text : given) add_tag(text, tags);
      };
  app.add_option_function("--tag", take_tags, "note kept in the report and shown with it; repeatable")
      ->allow_extra_args(false)
      ->group("Output")
      ->type_name("KEY=VALUE");
}

}  // namespace dpbench
