// Computes the status, statistics and derived figures of every case from its measurements.
#pragma once

#include <string>

#include "harness/report/record/report.h"

namespace dpbench {

// Returns the measured baseline to which the speed of case `spec` is compared, or null if there is none. The baseline
// has the same workload, dtype, threads, ... and the same batch (global for strong scaling, per device for weak).
const CaseRecord* baseline_of(const Report& report, const CaseSpec& spec);

// Returns the name of the strategy against which the run measured speed-ups; empty: the baseline (one device).
std::string reference_name(const Report& report);
// Returns the measured case that the speed-up of `spec` is measured against, or null if there is none.
const CaseRecord* reference_of(const Report& report, const CaseSpec& spec);

// Changes the status of an ok case to wrong if a check failed or its ranks ended with unequal parameters, to unproven
// if all checks of its gradient were skipped, and to disturbed if most of its blocks were disturbed. Fills
// step_time_ns, derived and notices of every ok case. May be called repeatedly, e.g. after each case of a run.
void summarise(Report& report);

}  // namespace dpbench
