#include "harness/report/text/pattern.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <re2/re2.h>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr size_t longest_quote = 40;

std::string quoted_start(const std::string& text) { return "'" + text.substr(0, longest_quote) + "'"; }

bool looks_around(const std::string& text) {
  constexpr std::array operators = {"(?=", "(?!", "(?<=", "(?<!"};
  return std::ranges::any_of(operators, [&](const char* one) { return text.starts_with(one); });
}

bool refers_back(const std::string& text) {
  const bool digit_or_k = text.size() > 1 && (std::isdigit(static_cast<unsigned char>(text[1])) || text[1] == 'k');
  return text.starts_with("(?P=") || (text.starts_with('\\') && digit_or_k);
}

// Returns what is wrong with an invalid regular expression, and where. RE2 does not tell the place of a fault in the
// whole expression.
std::string problem_of(const re2::RE2& pattern) {
  const std::string& text = pattern.pattern();
  const std::string& part = pattern.error_arg();
  if (part.empty()) return pattern.error();
  const size_t begin = text.find(part);
  const std::string rest = begin == std::string::npos ? part : text.substr(begin);
  const std::string at = rest == text ? "" : " at " + quoted_start(rest);
  if (looks_around(rest)) return "no lookahead or lookbehind" + at + "; name what to keep, as in 'ddp|zero1'";
  if (refers_back(rest)) return "no backreferences" + at + "; write the text out";
  return pattern.error().substr(0, pattern.error().size() - part.size() - std::string(": ").size()) + at;
}

}  // namespace

NamePattern::NamePattern(const std::string& text) : pattern_(std::make_shared<re2::RE2>(text, re2::RE2::Quiet)) {
  if (!pattern_->ok())
    throw UsageError(quoted_start(text) + " is no regular expression of RE2: " + problem_of(*pattern_));
}

bool NamePattern::matches(const std::string& name) const { return re2::RE2::PartialMatch(name, *pattern_); }

}  // namespace dpbench
