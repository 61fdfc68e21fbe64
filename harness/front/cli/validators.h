// Validators of command-line flag values. Their error messages name the value and the allowed range.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace dpbench {

// Accepts numbers within [low, high], and only integers unless `fractions` is true. Never accepts NaN.
CLI::Validator between(double low, double high, bool fractions = false);
CLI::Validator one_of(std::vector<std::string> allowed);
CLI::Validator regular_expression();
// Refuses an empty flag value, for example from an unset shell variable.
CLI::Validator not_empty();
// Accepts a mesh such as "dp=2,tp=2".
CLI::Validator a_mesh();

// Checks a comma-separated list: every element must pass the validator `value`.
CLI::Validator each(const CLI::Validator& value);
// Replaces the ranges in a list, such as 1-8 and 1,2,4,..,64, by all their numbers. A transformation for
// CLI::Option::transform().
CLI::Validator ranges();
// Refuses a comma-separated list with an empty element. An empty flag value is accepted.
CLI::Validator no_empty_value();

}  // namespace dpbench
