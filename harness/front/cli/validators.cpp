#include "harness/front/cli/validators.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>

#include "harness/front/cli/options.h"
#include "harness/front/text/text.h"
#include "harness/report/text/pattern.h"
#include "workloads/base/error.h"
#include "workloads/base/mesh_shape.h"
#include "workloads/base/number.h"

namespace dpbench {
namespace {

std::string shown(double value) {
  std::ostringstream out;
  out.precision(15);
  out << value;
  return out.str();
}

constexpr size_t most_values = 4096;
constexpr const char* dots = "..";

std::optional<int64_t> number_in(const std::string& text) {
  return text.starts_with('-') ? std::nullopt : parse_number<int64_t>(text);
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

// For a list like "1,2,4,..,16": appends the numbers between the last of `values` (4) and `last` (16), continuing the
// step or factor of the last three values.
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

// Returns the list with ranges and sequences written out: "1-4" becomes "1,2,3,4", and "1,2,4,..,16" becomes
// "1,2,4,8,16". Other values stay as they are. Throws a UsageError that names an invalid range or sequence.
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

}  // namespace

CLI::Validator between(double low, double high, bool fractions) {
  const bool open = low > 0 && low < 1e-6;  // a lower limit just above 0 is shown to the user as "above 0"
  const std::string allowed = std::string(fractions ? "a number" : "a whole number") +
                              (open ? " above 0, up to " : " from " + shown(low) + " to ") + shown(high);
  const auto judge = [=](std::string& text) -> std::string {
    std::string refusal = "'" + one_line(text, 40) + "' is not " + allowed;
    std::istringstream in(text);
    double value = 0;
    if (!(in >> value) || !in.eof() || !(value >= low && value <= high)) return refusal;
    return fractions || text.find_first_not_of("0123456789") == std::string::npos ? "" : refusal;
  };
  return CLI::Validator(judge, "");
}

CLI::Validator one_of(std::vector<std::string> allowed) {
  const auto judge = [allowed = std::move(allowed)](std::string& text) -> std::string {
    for (const auto& word : allowed)
      if (word == text) return "";
    return "'" + one_line(text, 40) + "' is not one of " + join(allowed) + did_you_mean(text, allowed);
  };
  return CLI::Validator(judge, "");
}

CLI::Validator each(const CLI::Validator& value) {
  const auto judge = [value](std::string& list) -> std::string {
    for (auto& one : comma_values(list))
      if (std::string why = value(one); !why.empty()) return why;
    return "";
  };
  return CLI::Validator(judge, "");
}

CLI::Validator ranges() {
  return CLI::Validator(
      [](std::string& list) -> std::string {
        try {
          list = expanded_ranges(list);
          return "";
        } catch (const UsageError& error) {
          return error.what();
        }
      },
      "");
}

CLI::Validator no_empty_value() {
  const auto judge = [](std::string& list) -> std::string {
    std::vector<std::string> left = comma_values(list);
    if (left.size() < 2 || std::erase(left, "") == 0) return "";
    return "'" + one_line(list, 60) + "' has an empty value" +
           (left.empty() ? "; put values between its commas" : "; write " + one_line(join(left, ","), 60));
  };
  return CLI::Validator(judge, "");
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        return text.empty() ? "'' is no name; leave the flag out, or name something" : "";
      },
      "");
}

CLI::Validator a_mesh() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        try {
          if (ranks_of(parse_mesh(text)) <= max_world) return "";
          return "'" + one_line(text, 40) + "' has more than " + std::to_string(max_world) + " ranks";
        } catch (const UsageError& error) {
          return error.what();
        }
      },
      "");
}

CLI::Validator regular_expression() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        try {
          static_cast<void>(NamePattern(text));
          return "";
        } catch (const UsageError& error) {
          return one_line(error.what(), 200);
        }
      },
      "");
}

}  // namespace dpbench
