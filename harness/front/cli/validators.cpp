#include "harness/front/cli/validators.h"

#include <cmath>
#include <sstream>

#include "harness/front/cli/options.h"
#include "harness/front/cli/ranges.h"
#include "harness/front/text/text.h"
#include "harness/report/text/pattern.h"
#include "workloads/base/error.h"
#include "workloads/base/mesh_shape.h"

namespace dpbench {
namespace {

std::string shown(double value) {
  std::ostringstream out;
  out.precision(15);
  out << value;
  return out.str();
}

}  // namespace

CLI::Validator between(double low, double high, bool fractions) {
  const bool open = low > 0 && low < 1e-6;  // a tiny positive `low` stands for "above 0"
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
