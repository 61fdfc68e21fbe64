#include "harness/front/cli/config_file.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <toml++/toml.h>
#include <CLI/CLI.hpp>

#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr uintmax_t largest_config = 1 << 20;
constexpr const char* valid_lines =
    R"( (valid lines: strategy = "ddp", cpus = [1, 2], filter = 'cpu:\d', quick = true))";

std::string refuse_unreadable(std::string& file) {
  const std::string name = "'" + one_line(file, 200) + "'";
  std::error_code failed;
  if (!std::filesystem::is_regular_file(file, failed)) return name + " does not exist, or is not a regular file";
  if (std::filesystem::file_size(file, failed) > largest_config || failed) return name + " is larger than 1 MiB";
  return "";
}

// Returns the value of a TOML key as text in the format of the command line.
std::string flag_text(const toml::node& value) {
  if (const auto text = value.value_exact<std::string>()) return *text;
  if (const auto number = value.value_exact<int64_t>()) return std::to_string(*number);
  std::ostringstream text;
  value.visit([&](const auto& one) { text << one; });
  return text.str();
}

class TomlFile : public CLI::Config {
 public:
  explicit TomlFile(CLI::App& app) : app_(app) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

  // Sets the flags directly and returns no items to CLI11, whose error messages would not name the line of the
  // configuration file.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    try {
      const toml::table file = toml::parse(input);
      for (const auto& [key, value] : file) set(key, value);
    } catch (const toml::parse_error& error) {
      refuse(error.source(), std::string(error.description()) + valid_lines);
    }
    return {};
  }

 private:
  [[noreturn]] void refuse(const toml::source_region& at, const std::string& why) const {
    throw UsageError("--config '" + one_line(app_.get_config_ptr()->as<std::string>(), 200) + "', line " +
                     std::to_string(at.begin.line) + ": " + one_line(why, 300));
  }

  void set(const toml::key& key, const toml::node& value) const {
    const std::string name(key.str());
    CLI::Option* flag = app_.get_option_no_throw((name.size() == 1 ? "-" : "--") + name);
    if (!flag || !flag->get_configurable())
      refuse(key.source(), "unknown key '" + one_line(name, 60) + "'" + did_you_mean(name, keys()));
    std::vector<std::string> texts = texts_of(name, value, *flag);
    if (flag->count() > 0) return;  // the command line sets this flag too, and wins
    try {
      if (takes_no_value(*flag)) texts.front() = flag->get_flag_value(name, texts.front());
      flag->add_result(texts);
      flag->run_callback();
    } catch (const CLI::Error& error) {
      refuse(value.source(), error.what());
    }
  }

  // Returns a TOML key's value as text; for a list, the text of each element. Refuses types that the flag does not
  // accept.
  std::vector<std::string> texts_of(const std::string& name, const toml::node& value, const CLI::Option& flag) const {
    const std::string allowed =
        "'" + name + "' takes " + (takes_no_value(flag) ? "true or false" : flag.get_type_name());
    std::vector<std::string> texts;
    const auto add = [&](const toml::node& one) {
      if (!one.is_value() || one.is_boolean() != takes_no_value(flag))
        refuse(one.source(), (std::ostringstream() << allowed << "; this value has the type " << one.type()).str());
      texts.push_back(flag_text(one));
    };
    if (const toml::array* list = value.as_array())
      for (const toml::node& one : *list) add(one);
    else
      add(value);
    if (texts.empty()) refuse(value.source(), allowed + "; this list is empty, so leave the key out");
    if (texts.size() > static_cast<size_t>(std::max(1, flag.get_items_expected_max())))
      refuse(value.source(), allowed + "; this is a list of " + std::to_string(texts.size()));
    return texts;
  }

  static bool takes_no_value(const CLI::Option& flag) { return flag.get_expected_max() == 0; }

  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const CLI::Option* flag : app_.get_options())
      if (flag->get_configurable())
        for (const std::string& name : flag->get_lnames()) names.push_back(name);
    return names;
  }

  CLI::App& app_;
};

}  // namespace

void add_config(CLI::App& app) {
  app.set_config("--config", "", "TOML file with flags (strategy = [\"ddp\"]); the command line wins")
      ->check(CLI::Validator(refuse_unreadable, ""))
      ->group("Running")
      ->type_name("FILE");
  app.config_formatter(std::make_shared<TomlFile>(app));
}

}  // namespace dpbench
