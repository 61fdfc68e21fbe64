// Reads and parses the small text files of /proc and /sys.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dpbench {

// Returns the file's text without trailing newlines and zero bytes, or nullopt if the file cannot be read.
std::optional<std::string> read_small(const std::filesystem::path& path);
// Returns the value of the first "key : value" or "key=value" line of the text, without quotation marks; nullopt if no
// line has the key or the value is empty.
std::optional<std::string> line_value(const std::string& text, const std::string& key);
// Converts a size as written in /sys or /proc to bytes, e.g. 32K to 32768; nullopt if the text is no size.
std::optional<int64_t> bytes_of_size(const std::string& text);
// Formats core numbers as in /sys: {0,1,2,5} becomes "0-2,5".
std::string ranges_of(const std::vector<int>& ids);
// Returns how many numbers a list in the format of /sys contains: 4 for "0-2,5".
int count_of_ranges(const std::string& text);

}  // namespace dpbench
