// Status, statistics and derived figures of every case, worked out from its measurements.
#pragma once

#include "harness/report/record/report.h"

namespace dpbench {

// The measured row that speed-ups are relative to: same workload, dtype, threads, ...; the same global batch (strong)
// or batch per device (weak).
const CaseRecord* baseline_of(const Report& report, const CaseSpec& spec);

// Turns ok into wrong where a check failed or ranks ended with unequal parameters; fills step_time_ns, derived and
// notices of every case that is ok, the speed-ups from the baseline's row. May be called after every case.
void summarise(Report& report);

}  // namespace dpbench
