// Computes the answer of a run: which strategy is fastest, which needs the least memory, the reasons, and how certain
// each statement is.
#pragma once

#include "harness/report/record/report.h"

namespace dpbench {

// Returns the answer of a report; call summarise(report) first. Compares only cases that were checked, have status ok
// and compute the same step as the baseline, within groups of equal settings, world and global batch. For a run of
// `tune`, the answer is tune's verdict on the candidates; no cases are ranked.
Answer answer_of(const Report& report);

}  // namespace dpbench
