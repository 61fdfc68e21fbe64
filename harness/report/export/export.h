// A report in the formats of other tools.
#pragma once

#include <string>

#include "harness/report/record/report.h"

namespace dpbench {

// Google Benchmark's JSON, as its compare.py reads it. One entry a launch (its median): the unit that compare.py's U
// test may treat as independent. Only cases that are ok.
std::string gbench_json(const Report& report);

// JUnit XML: a test for every check of every case, and one for a case that ran without any.
std::string junit_xml(const Report& report);

}  // namespace dpbench
