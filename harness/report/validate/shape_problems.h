// What must hold of a case's parts, whatever its figures are: ids, ranks, counts, ranges, status.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

std::vector<std::string> shape_problems(const Report& report, const CaseRecord& record);
// Of the report as a whole.
std::vector<std::string> shape_problems(const Report& report);

}  // namespace dpbench
