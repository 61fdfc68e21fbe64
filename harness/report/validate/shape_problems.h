// Structural consistency of a report, apart from its figures: ids, ranks, counts, ranges, status.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

std::vector<std::string> shape_problems(const Report& report, const CaseRecord& record);
// Problems of the report as a whole.
std::vector<std::string> shape_problems(const Report& report);

}  // namespace dpbench
