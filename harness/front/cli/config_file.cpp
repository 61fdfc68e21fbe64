#include "harness/front/cli/config_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr uintmax_t largest_config = 1 << 20;

// Throws UsageError for faults in a config file that CLI11 silently accepts: non-text bytes, lines without '=',
// unterminated lists, duplicate keys.
void refuse_bad_text(const std::string& file) {
  const auto refuse = [&](size_t line, const std::string& why) {
    throw UsageError("--config '" + one_line(file, 200) + "', line " + std::to_string(line) + ": " + why);
  };
  std::ifstream input(file);
  std::set<std::string> keys;
  std::string section;
  size_t number = 0;
  for (std::string line; std::getline(input, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::string expected = line;
    std::replace(expected.begin(), expected.end(), '\t', ' ');
    if (sanitised(expected) != expected) refuse(number, "is no plain text");
    const size_t begin = line.find_first_not_of(" \t"), equals = line.find('=');
    if (begin == std::string::npos || line[begin] == '#' || line[begin] == ';') continue;
    if (line[begin] == '[') {
      section = line;
      continue;
    }
    if (equals == std::string::npos) refuse(number, "has no '='; a flag is written as quick = true");
    if (std::count(line.begin(), line.end(), '[') != std::count(line.begin(), line.end(), ']'))
      refuse(number, "a list begins and ends on one line");
    const std::string key = line.substr(begin, line.find_last_not_of(" \t", equals - 1) + 1 - begin);
    if (!keys.insert(section + key).second) refuse(number, "'" + one_line(key, 60) + "' is a duplicate");
  }
}

}  // namespace

void refuse_bad_config(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string file;
    if (arguments[i].starts_with("--config="))
      file = arguments[i].substr(9);
    else if (arguments[i] == "--config" && i + 1 < arguments.size())
      file = arguments[i + 1];
    else
      continue;
    std::error_code failed;
    if (!std::filesystem::is_regular_file(file, failed))
      throw UsageError("--config '" + one_line(file, 200) + "': no such file, or not a regular one");
    if (std::filesystem::file_size(file, failed) > largest_config || failed)
      throw UsageError("--config '" + one_line(file, 200) + "': larger than 1 MiB");
    refuse_bad_text(file);
  }
}

}  // namespace dpbench
