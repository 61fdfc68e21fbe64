// When two runs may not be compared, and what else differs between them.
#pragma once

#include <vector>

#include "harness/report/judge/compare.h"

namespace dpbench {

// Throws UsageError naming the fields of env (comparable_fields) that differ.
void refuse_unlike_machines(const Report& base, const Report& now);
// Throws UsageError naming what differs in how a case of both runs was run: threads, clipping, kind of data.
void refuse_unlike_cases(const Report& base, const Report& now);
// What differs in machine, software and dpbench: to be told beside the verdicts.
std::vector<Difference> differences_of(const Report& base, const Report& now);

}  // namespace dpbench
