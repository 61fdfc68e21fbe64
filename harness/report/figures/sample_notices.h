// What the samples of a case say about how they were taken. Nothing is dropped because of it.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Outliers, a trend within launches, launches that fall apart: one line each, with what to do.
std::vector<std::string> notices_of(const CaseRecord& record);

}  // namespace dpbench
