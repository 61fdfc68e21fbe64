// Prints the comparison of two runs as a table, as JSON and as GitHub annotations.
#pragma once

#include <string>
#include <vector>

#include "harness/report/judge/compare.h"

namespace dpbench {

// Returns the table's title row, then a row for each judged case and rule and a row for each case without a verdict.
std::vector<std::vector<std::string>> compare_rows(const Comparison& comparison);
const std::vector<bool>& compare_columns_right();  // one flag per table column: true if right-aligned (numeric)

Json compare_json(const Comparison& comparison);

// Returns the summary line, e.g. "1 worse, 1 unclear, 18 same. Gate: FAILED".
std::string compare_summary(const Comparison& comparison);
// Returns one line for each case pattern of the gate file that has no effect, and one for each difference in machine or
// software.
std::vector<std::string> compare_notes(const Comparison& comparison);
// Returns the comparison as GitHub workflow commands (::error and ::warning lines), which GitHub shows on a pull
// request.
std::vector<std::string> github_annotations(const Comparison& comparison);

}  // namespace dpbench
