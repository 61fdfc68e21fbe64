// Converts a run's report to the formats of other tools: Google Benchmark JSON and JUnit XML.
#pragma once

#include <string>

#include "harness/report/record/report.h"

namespace dpbench {

// Returns the report as Google Benchmark JSON for Google's compare.py. Each launch of a case (a start of its
// processes) becomes one entry, the launch's median, because the U test of compare.py needs independent values. Only
// cases with status ok are exported.
std::string gbench_json(const Report& report);

// Returns the report as JUnit XML: one test for each conformance check of each case, and a test "run" for a case that
// has no checks or did not end normally. The attribute `time` is the sum of a case's timed blocks in seconds, on its
// suite and its first test.
std::string junit_xml(const Report& report);

}  // namespace dpbench
