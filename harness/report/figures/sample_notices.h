// Diagnoses the quality of a case's measurements. Notices only inform: no measurement is dropped because of them.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Returns one line, with a likely cause or remedy, for each finding: outliers, a trend within launches, launches that
// differ, two clusters, a straggler, throttled GPUs; then the ranks' own warnings.
std::vector<std::string> notices_of(const CaseRecord& record);

}  // namespace dpbench
