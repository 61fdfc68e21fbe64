// Reads the small text files of /proc and /sys.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dpbench {

// Returns the text without trailing newlines, or nullopt if the file cannot be read.
std::optional<std::string> read_small(const std::filesystem::path& path);
// Returns the value of the first "key : value" line.
std::optional<std::string> line_value(const std::string& text, const std::string& key);
// 32K -> 32768
std::optional<int64_t> bytes_of_size(const std::string& text);
// {0,1,2,5} -> "0-2,5"
std::string ranges_of(const std::vector<int>& ids);
// "0-2,5" -> 4
int count_of_ranges(const std::string& text);

}  // namespace dpbench
