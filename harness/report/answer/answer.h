// Computes the answer of a run: which strategy is fastest, which needs the least memory, why, and how sure that is.
#pragma once

#include "harness/report/record/report.h"

namespace dpbench {

// Requires summarise(report). Ranks only ok and checked cases that do the baseline's mathematics, in groups of equal
// settings, world and global batch.
Answer answer_of(const Report& report);

}  // namespace dpbench
