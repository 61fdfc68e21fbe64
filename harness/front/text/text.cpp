#include "harness/front/text/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <sstream>
#include <utility>

namespace dpbench {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Returns the length in bytes of the well-formed UTF-8 character at the start of `text`, or 0 if there is none.
size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first < 0xE0   ? 2
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if (!is_continuation(static_cast<unsigned char>(text[i]))) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  // Surrogates and code points above U+10FFFF are not valid in UTF-8.
  const bool outside = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
  return overlong || outside ? 0 : length;
}

// True for control characters (except newline and tab), line and paragraph separators, and text-direction marks.
bool is_unprintable(std::string_view character) {
  if (character.size() == 1) {
    const char c = character[0];
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
  }
  if (character.size() == 2) return character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0;
  if (character.size() != 3 || character[0] != '\xE2') return false;
  const auto second = static_cast<unsigned char>(character[1]), third = static_cast<unsigned char>(character[2]);
  return (second == 0x80 && ((third >= 0x8E && third <= 0x8F) || (third >= 0xA8 && third <= 0xAE))) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

// Returns the length of the terminal escape sequence at the start of `text` (ESC [ ... letter, or ESC and one more
// byte), or 0 if there is none.
size_t escape_length(std::string_view text) {
  if (text[0] != '\x1B') return 0;
  if (text.size() < 2 || text[1] != '[') return std::min<size_t>(text.size(), 2);
  size_t end = 2;
  while (end < text.size() && text[end] >= 0x20 && text[end] < 0x40) ++end;
  return std::min(end + 1, text.size());
}

// Returns the edit distance of two words (Damerau-Levenshtein): insertions, deletions, replacements and swaps of
// neighbouring letters each cost one.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  return cost[a.size()][b.size()];
}

// Returns a name in lower case and without leading dashes, the form in which names are compared.
std::string normalized(const std::string& name) {
  std::string plain = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::transform(plain.begin(), plain.end(), plain.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return plain;
}

// Rates the known name `meant` as a suggestion for the mistyped name `typed`: two points for each edit, fewer being
// better. If `meant` begins with `typed`, two points at most; if `meant` contains `typed` or `typed` begins with
// `meant`, three at most. Returns nullopt if the names are too different.
std::optional<size_t> match_penalty(const std::string& typed, const std::string& meant, size_t edits) {
  constexpr size_t min_letters = 3;  // least number of letters: shorter names would match as parts of too many names
  if (edits > 1 && typed.size() >= min_letters && meant.starts_with(typed)) return 2;
  if (edits > 1 && typed.size() >= min_letters && meant.find(typed) != std::string::npos) return 3;
  if (edits > 1 && meant.size() >= min_letters && typed.starts_with(meant)) return 3;
  const bool few = edits <= std::max<size_t>(2, typed.size() / 3) && edits < std::max(typed.size(), meant.size());
  return few ? std::optional(2 * edits) : std::nullopt;
}

struct Synonym {
  std::string_view typed;  // the user's word in lower case, without '-' and '_'
  const char* meant;
};

// Names from other tools, each beside a dpbench name of the same meaning. A name with several meanings has several
// rows.
constexpr auto synonyms = std::to_array<Synonym>({{"float32", "f32"},
                                                  {"float", "f32"},
                                                  {"fp32", "f32"},
                                                  {"bfloat16", "bf16"},
                                                  {"float64", "f64"},
                                                  {"double", "f64"},
                                                  {"fp64", "f64"},
                                                  {"dataparallel", "dp"},
                                                  {"distributeddataparallel", "ddp"},
                                                  {"deepspeed", "zero1"},
                                                  {"deepspeed", "zero2"},
                                                  {"zero", "zero1"},
                                                  {"zero", "zero2"},
                                                  {"zero3", "fsdp"},
                                                  {"fsdp2", "fsdp"},
                                                  {"fullyshardeddataparallel", "fsdp"},
                                                  {"tensorparallel", "tp"},
                                                  {"pipeline", "pp"},
                                                  {"pipelineparallel", "pp"},
                                                  {"contextparallel", "cp"},
                                                  {"expert", "ep"},
                                                  {"expertparallel", "ep"},
                                                  {"moe", "ep"}});

// Returns the known names for which other tools use `word`, e.g. f32 for float32.
std::vector<std::string> meanings(const std::string& word, const std::vector<std::string>& known) {
  std::string typed = normalized(word);
  std::erase_if(typed, [](char c) { return c == '-' || c == '_'; });
  std::vector<std::string> meant;
  for (const Synonym& synonym : synonyms)
    if (synonym.typed == typed && std::ranges::find(known, synonym.meant) != known.end())
      meant.emplace_back(synonym.meant);
  return meant;
}

}  // namespace

std::string join(const std::vector<std::string>& words, const std::string& between) {
  std::string all;
  for (const auto& word : words) all += (all.empty() ? "" : between) + word;
  return all;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::vector<std::string> comma_values(const std::string& list) { return split(list + ',', ','); }

size_t display_width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(static_cast<unsigned char>(c)); }));
}

std::string sanitised(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    if (const size_t escape = escape_length(text)) {
      text.remove_prefix(escape);
      continue;
    }
    const size_t length = character_length(text);
    const std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    if (length == 0)
      clean += '?';
    else if (!is_unprintable(character))
      clean += character;
    text.remove_prefix(character.size());
  }
  return clean;
}

std::string one_line(std::string_view text, size_t limit) {
  std::string line = sanitised(text);
  std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  if (display_width(line) <= limit) return line;
  size_t bytes = 0;
  for (size_t shown = 0; shown + 1 < limit; ++shown) do
      ++bytes;
    while (bytes < line.size() && is_continuation(static_cast<unsigned char>(line[bytes])));
  return line.substr(0, bytes) + "…";
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  if (word.size() > 100) return "";
  const std::string typed = normalized(word);
  const std::string* best = nullptr;
  std::pair<size_t, size_t> smallest;
  for (const auto& name : known) {
    const std::string meant = normalized(name);
    const size_t edits = edit_distance(typed, meant);
    const std::optional<size_t> penalty = match_penalty(typed, meant, edits);
    if (!penalty || (best && smallest <= std::pair(*penalty, edits))) continue;
    smallest = {*penalty, edits};
    best = &name;
  }
  return best ? *best : "";
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  std::vector<std::string> meant = meanings(word, known);
  if (meant.empty())
    if (const std::string near = nearest(word, known); !near.empty()) meant = {near};
  return meant.empty() ? "" : " (did you mean '" + join(meant, "' or '") + "'?)";
}

}  // namespace dpbench
