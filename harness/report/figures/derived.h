// Computes figures that are derived from a case's measurements, such as speed-ups. Formulas and sources are in
// results/figures.md.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Maps each rank to the index of its host in the list env.hosts of a report. A rank that is not in the map runs on host
// 0.
using HostOfRank = std::map<int, size_t>;
HostOfRank hosts_of_ranks(const Json& env);

// Computes the derived figures of a case that do not depend on other cases. Requires record.step_time_ns.
void derive(CaseRecord& record, const HostOfRank& hosts);
// Computes the speed-ups of all cases, which depend on other cases. Call it after derive() has run for every case.
void derive_speedups(Report& report);

// Returns how much faster a case is than its reference (ratio of times per sample), for each launch and each pair of
// blocks that ran next to each other.
std::vector<std::vector<double>> pair_ratios(const CaseRecord& record, const CaseRecord& reference);

// Returns the memory of the rank with the largest memory in any launch, by part (parameters, gradients, ...); nullopt
// if no rank's profile has it.
std::optional<MemoryParts> largest_memory(const CaseRecord& record);

// True if the whole 95 % interval of the case's efficiency is above 100 %; false for the baseline.
bool above_ideal(const CaseRecord& record);

// Returns the Karp-Flatt metric, the serial fraction of a program computed from its speed-up in a world; below 0 for a
// superlinear speed-up.
double karp_flatt(double speedup, int world);

}  // namespace dpbench
