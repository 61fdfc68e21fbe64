// Computes the answer of a run: which strategy is fastest, which needs the least memory, the reasons, and how certain
// each statement is.
#pragma once

#include "harness/report/record/report.h"

namespace dpbench {

// Returns the answer of a report; call summarise(report) first. Ranks only checked cases with status ok and a step that
// computes the same as the baseline's, in groups of equal settings, world and global batch.
Answer answer_of(const Report& report);

}  // namespace dpbench
