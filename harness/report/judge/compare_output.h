// Prints a comparison as a table, as JSON and as GitHub annotations.
#pragma once

#include <string>
#include <vector>

#include "harness/report/judge/compare.h"

namespace dpbench {

// Returns the title row, then a row for each judgement and each case without one.
std::vector<std::vector<std::string>> compare_rows(const Comparison& comparison);
const std::vector<bool>& compare_columns_right();  // true for right-aligned (numeric) columns

Json compare_json(const Comparison& comparison);

// "1 slower, 1 unclear, 18 same of 20. Gate: FAILED"
std::string compare_summary(const Comparison& comparison);
// Returns a line for each unused pattern of the gate file and for each difference.
std::vector<std::string> compare_notes(const Comparison& comparison);
// Returns workflow commands that GitHub shows on a pull request: ::error and ::warning lines.
std::vector<std::string> github_annotations(const Comparison& comparison);

}  // namespace dpbench
