// A comparison for people, for machines and for GitHub's pages.
#pragma once

#include <string>
#include <vector>

#include "harness/report/judge/compare.h"

namespace dpbench {

// Title row first, then a row for every judgement and every case without one.
std::vector<std::vector<std::string>> compare_rows(const Comparison& comparison);
const std::vector<bool>& compare_columns_right();  // which of them are numbers

Json compare_json(const Comparison& comparison);

// "1 slower, 1 unclear, 18 same of 20. Gate: FAILED"
std::string compare_summary(const Comparison& comparison);
// What differs, who is new or gone: one line each.
std::vector<std::string> compare_notes(const Comparison& comparison);
// Workflow commands that GitHub shows on a pull request: ::error and ::warning lines.
std::vector<std::string> github_annotations(const Comparison& comparison);

}  // namespace dpbench
