// Text helpers: joining, splitting, terminal widths, sanitising untrusted text, and suggestions for mistyped names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/text/first_line.h"

namespace dpbench {

std::string join(const std::vector<std::string>& words, const std::string& between = ", ");
std::vector<std::string> split(const std::string& text, char at);
std::vector<std::string> comma_values(const std::string& list);  // keeps empty values, also after the last comma

// Returns the number of terminal columns that valid UTF-8 text takes.
size_t display_width(std::string_view text);

// Returns valid UTF-8 without control, escape or text-direction characters (tab and newline stay), safe to print or
// store.
std::string sanitised(std::string_view text);
// Returns the sanitised text on one line, cut to `limit` characters.
std::string one_line(std::string_view text, size_t limit);

// Returns the known name closest to a mistyped one, by edit distance, prefix or substring; empty if none is close.
std::string nearest(const std::string& word, const std::vector<std::string>& known);
// Returns " (did you mean 'x'?)", or an empty string if no known name is close.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

}  // namespace dpbench
