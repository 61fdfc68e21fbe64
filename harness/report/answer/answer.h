// Computes the answer of a run: which strategy is fastest, which needs the least memory, the reasons, and how certain
// each statement is.
#pragma once

#include "harness/report/record/report.h"

namespace dpbench {

// Returns the answer of a report; call summarise(report) first. Compares only cases that were checked, have status ok
// and compute the same step as the baseline, within groups of equal settings, world and global batch. The answer of a
// run of `tune` is its own verdict on the candidates, and ranks no other case.
Answer answer_of(const Report& report);

}  // namespace dpbench
