// Checks the structure of a report for consistency, apart from its figures: ids, ranks, counts, ranges, status.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Returns the structural problems of one case of the report, one line each; empty if there are none.
std::vector<std::string> shape_problems(const Report& report, const CaseRecord& record);
// Returns the structural problems of a report that concern no single case, one line each: in its id, its start and end,
// and in case ids or launch orders that appear twice.
std::vector<std::string> shape_problems(const Report& report);

}  // namespace dpbench
