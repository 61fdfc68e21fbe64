// Text for people: joining, widths as a terminal counts them, and the cleaning of what others wrote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/text/first_line.h"

namespace dpbench {

std::string join(const std::vector<std::string>& words, const std::string& between = ", ");
std::vector<std::string> split(const std::string& text, char at);
std::vector<std::string> comma_values(const std::string& list);  // empty ones too, also after the last comma

// Columns taken by valid UTF-8.
size_t display_width(std::string_view text);

// Valid UTF-8 without control, escape or text-direction characters (tab and newline stay): safe to print or to store.
std::string sanitised(std::string_view text);
// The same on one line, cut to `limit` characters.
std::string one_line(std::string_view text, size_t limit);

// The known name nearest to a mistyped one: by its letters, or what it begins with, or a part of it; empty when none is
// near.
std::string nearest(const std::string& word, const std::vector<std::string>& known);
// " (did you mean 'x'?)" or nothing.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

}  // namespace dpbench
