// Checks the structure of a report for consistency, apart from its figures: ids, ranks, counts, ranges, status.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Returns the structural problems of one case of the report, one line each; empty if there are none.
std::vector<std::string> shape_problems(const Report& report, const CaseRecord& record);
// Returns the problems of the report's own id and of duplicate case ids, one line each. The other function checks a
// case.
std::vector<std::string> shape_problems(const Report& report);

}  // namespace dpbench
