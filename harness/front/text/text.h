// Text functions: join and split, measure terminal width, sanitise untrusted text, and suggest names for mistyped ones.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/text/first_line.h"

namespace dpbench {

std::string join(const std::vector<std::string>& words, const std::string& between = ", ");
std::vector<std::string> split(const std::string& text, char at);
// Splits a list at commas. Keeps empty values, also after the last comma.
std::vector<std::string> comma_values(const std::string& list);

// Returns the number of characters (code points) in valid UTF-8 text. Each counts as one terminal column, also wide and
// combining ones.
size_t display_width(std::string_view text);

// Returns the text as valid UTF-8, safe to print or store: control, escape and text-direction characters are removed,
// except tab and newline. A malformed byte becomes '?'.
std::string sanitised(std::string_view text);
// Returns the text sanitised and on one line, cut to `limit` characters.
std::string one_line(std::string_view text, size_t limit);

// Returns the known name closest to a mistyped one, by edit distance, prefix or substring; empty if no name is close.
std::string nearest(const std::string& word, const std::vector<std::string>& known);
// Returns a suggestion such as " (did you mean 'x'?)". Suggests the known names that `word` means in other tools
// (float32 means f32), else the nearest known name. Empty if there is none.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

}  // namespace dpbench
