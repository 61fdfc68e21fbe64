#include "harness/report/machine/host_files.h"

#include <charconv>
#include <fstream>
#include <sstream>

#include <map>

namespace dpbench {

std::optional<std::string> read_small(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  std::string result = text.str();
  while (!result.empty() && (result.back() == '\n' || result.back() == '\0')) result.pop_back();
  return result;
}

std::optional<std::string> line_value(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find_first_of(":=");
    if (colon == std::string::npos) continue;
    const size_t end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
    if (line.substr(0, end + 1) != key) continue;
    const size_t begin = line.find_first_not_of(" \t\"", colon + 1);
    if (begin == std::string::npos) return std::nullopt;
    return line.substr(begin, line.find_last_not_of(" \t\"") - begin + 1);
  }
  return std::nullopt;
}

std::optional<int64_t> bytes_of_size(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  const std::string unit(end, text.data() + text.size());
  static const std::map<std::string, int> shifts = {{"", 0}, {"K", 10}, {" kB", 10}, {"M", 20}};
  const auto shift = shifts.find(unit);
  return shift == shifts.end() ? std::nullopt : std::optional(number << shift->second);
}

std::string ranges_of(const std::vector<int>& ids) {
  std::string text;
  for (size_t i = 0; i < ids.size();) {
    size_t last = i;
    while (last + 1 < ids.size() && ids[last + 1] == ids[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(ids[i]);
    if (last > i) text.append("-").append(std::to_string(ids[last]));
    i = last + 1;
  }
  return text;
}

int count_of_ranges(const std::string& text) {
  int count = 0;
  std::istringstream pieces(text);
  for (std::string piece; std::getline(pieces, piece, ',');) {
    int first = 0, last = 0;
    const char* end = piece.data() + piece.size();
    const auto [stop, error] = std::from_chars(piece.data(), end, first);
    if (error != std::errc{}) continue;
    const bool range = stop != end && *stop == '-' && std::from_chars(stop + 1, end, last).ec == std::errc{};
    count += range ? last - first + 1 : 1;
  }
  return count;
}

}  // namespace dpbench
