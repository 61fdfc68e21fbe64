#include "harness/front/cli/ranges.h"

#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr size_t most_values = 4096;
constexpr const char* dots = "..";

std::optional<int64_t> number_in(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || text[0] == '-' || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw UsageError("'" + one_line(what, 60) + "' " + why);
}

void add_range(const std::string& text, std::vector<std::string>& values) {
  const size_t dash = text.find('-');
  const auto first = number_in(text.substr(0, dash));
  const auto last = dash == std::string::npos ? std::nullopt : number_in(text.substr(dash + 1));
  if (!first || !last) return values.push_back(text);
  if (*first > *last) refuse(text, "counts down; write " + std::to_string(*last) + "-" + std::to_string(*first));
  if (*last - *first >= static_cast<int64_t>(most_values)) refuse(text, "has more than 4096 values");
  for (int64_t value = *first; value <= *last; ++value) values.push_back(std::to_string(value));
}

// Appends the numbers between the last of `values` and `last`, continuing the step or factor of the last three values.
void add_sequence(const std::string& list, const std::optional<int64_t>& last, std::vector<std::string>& values) {
  const auto before = [&](size_t back) {
    return values.size() < back ? std::nullopt : number_in(values[values.size() - back]);
  };
  const auto a = before(3), b = before(2), c = before(1);
  if (!a || !b || !c || !last) refuse(list, "needs three numbers before '..' and one after, as in 1,2,4,..,64");
  std::function<int64_t(int64_t)> next;
  if (*b - *a == *c - *b && *b > *a)
    next = [step = *b - *a](int64_t value) { return value + step; };
  else if (*a > 0 && *b > *a && *b % *a == 0 && *c == *b * (*b / *a))
    next = [factor = *b / *a](int64_t value) { return value * factor; };
  else
    refuse(list, "has neither a step nor a factor before '..', as 2,4,6,..,16 and 1,2,4,..,64 have");
  int64_t value = next(*c);
  for (; value < *last && values.size() < most_values; value = next(value)) values.push_back(std::to_string(value));
  if (value != *last)
    refuse(list,
           "does not reach " + std::to_string(*last) + "; after " + values.back() + " comes " + std::to_string(value));
}

}  // namespace

std::string expanded_ranges(const std::string& list) {
  std::vector<std::string> values;
  const auto given = comma_values(list);
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i] == dots)
      add_sequence(list, i + 1 < given.size() ? number_in(given[i + 1]) : std::nullopt, values);
    else
      add_range(given[i], values);
  std::string expanded;
  for (size_t i = 0; i < values.size(); ++i) expanded += (i ? "," : "") + values[i];
  return expanded;
}

}  // namespace dpbench
