// Validators of flag values. Their messages name the value and the allowed range.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace dpbench {

// Accepts numbers within [low, high], integers only unless `fractions`; never NaN.
CLI::Validator between(double low, double high, bool fractions = false);
CLI::Validator one_of(std::vector<std::string> allowed);
CLI::Validator regular_expression();
// Refuses an empty value, as from an unset shell variable.
CLI::Validator not_empty();

// For comma-separated lists: `each` value passes; no value is empty unless it is the only one.
CLI::Validator each(const CLI::Validator& value);
CLI::Validator no_empty_value();

}  // namespace dpbench
