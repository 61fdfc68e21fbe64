// The text that `dpbench check` prints: a summary per strategy with its failed checks grouped by likely cause, or every
// check of every case.
#pragma once

#include <string>
#include <vector>

#include "harness/front/run/table.h"
#include "harness/report/record/report.h"

namespace dpbench {

int count_checks(const Report& report, CheckStatus status);
// True if the case was checked, but its strategy refused some scenarios without a feature that the case does not use,
// e.g. all scenarios in float64.
bool checked_in_part(const CaseRecord& record);
// Counts cases and checks in one line.
std::string check_counts(const Report& report);
// Formats a line per strategy, its failed checks grouped by their likely cause, and the cases that did not run.
std::string check_summary(const Report& report);
// Formats every check of every case, followed by the details of those that failed.
std::string every_check(const Report& report);
// Returns every check as the cells of a table, with a heading.
std::vector<Cells> check_rows(const Report& report);

}  // namespace dpbench
