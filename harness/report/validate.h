// What a schema cannot say about a report: that it agrees with itself.
#pragma once

#include <string>
#include <vector>

#include "harness/report/report.h"

namespace dpbench {

// Each problem names its case; empty: the report holds together. Statistics are worked out again from the raw samples.
std::vector<std::string> problems_of(const Report& report);

}  // namespace dpbench
