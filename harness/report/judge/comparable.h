// Decides if two runs are comparable and lists the differences between them.
#pragma once

#include <vector>

#include "harness/report/judge/compare.h"

namespace dpbench {

// Throws a UsageError that names the differing fields if the two runs differ in any of comparable_fields(), the machine
// facts that must be equal.
void require_equal_machines(const Report& base, const Report& now);
// Throws a UsageError that names the differences if a case present in both runs has different settings: threads,
// gradient clipping, kind of data, ...
void require_equal_settings(const Report& base, const Report& now);
// Returns the differences between two runs in machine, software and dpbench version, to be printed with the verdicts.
std::vector<Difference> differences_of(const Report& base, const Report& now);

}  // namespace dpbench
