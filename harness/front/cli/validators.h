// Checks of one value of a flag: each message names the value and what is allowed.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace dpbench {

// A number within [low, high]; never NaN, and whole unless `fractions`.
CLI::Validator between(double low, double high, bool fractions = false);
CLI::Validator one_of(std::vector<std::string> allowed);
CLI::Validator regular_expression();
// A variable of the shell that was never set is no way to leave a flag out.
CLI::Validator not_empty();

// Of lists whose values commas separate: each of them passes; none is empty unless it is the only one.
CLI::Validator each(const CLI::Validator& value);
CLI::Validator no_empty_value();

}  // namespace dpbench
