// Exports a report to the formats of other tools.
#pragma once

#include <string>

#include "harness/report/record/report.h"

namespace dpbench {

// Returns Google Benchmark's JSON for its compare.py. Each launch becomes one entry, its median, because the U test of
// compare.py needs independent values. Only ok cases are exported.
std::string gbench_json(const Report& report);

// Returns JUnit XML: one test for each check of each case, and one for a case without checks.
std::string junit_xml(const Report& report);

}  // namespace dpbench
