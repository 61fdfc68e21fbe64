// Diagnoses the quality of a case's measurements. Notices only inform: they never discard a measurement.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Returns one line, with a likely cause or remedy, for each finding in a case's timings: outliers, a trend within
// launches (starts of the case's processes), launches that differ, two clusters of block times, a rank that is slower
// than the others, throttled GPUs. A notice is also given if no launch has a usable profile, or if the check `audit` of
// timed steps was skipped. The warnings that the ranks reported follow.
std::vector<std::string> notices_of(const CaseRecord& record);

}  // namespace dpbench
