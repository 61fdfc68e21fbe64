// Decides if two runs are comparable and lists the differences between them.
#pragma once

#include <vector>

#include "harness/report/judge/compare.h"

namespace dpbench {

// Throws a UsageError that names the differing env fields, if any of comparable_fields differs.
void require_equal_machines(const Report& base, const Report& now);
// Throws a UsageError that names the differences if a case of both runs was run with different settings: threads,
// clipping, kind of data, ...
void require_equal_settings(const Report& base, const Report& now);
// Returns the differences in machine, software and dpbench, to be printed with the verdicts.
std::vector<Difference> differences_of(const Report& base, const Report& now);

}  // namespace dpbench
