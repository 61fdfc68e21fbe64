// Computes figures that are derived from a case's measurements, such as speed-ups. Formulas and sources are in
// results/figures.md.
#pragma once

#include <map>
#include <optional>

#include "harness/report/record/report.h"

namespace dpbench {

// Maps each rank to the index of its host, from the report's env block. A rank that is not in the map runs on host 0.
using HostOfRank = std::map<int, size_t>;
HostOfRank hosts_of_ranks(const Json& env);

// Fills a case's figures that need no other case. Requires record.step_time_ns.
void derive(CaseRecord& record, const HostOfRank& hosts);
// Fills the speed-ups of all cases, which depend on other cases. Call it after derive() has run for every case.
void derive_speedups(Report& report);

// Returns the world-1 case with the same strategy, parameters, backend and batch (global for strong scaling, per device
// for weak), or null if the report has none.
const CaseRecord* own_world_1_of(const Report& report, const CaseSpec& spec);

// Returns the experimentally determined serial fraction of A. H. Karp and H. P. Flatt; below 0 for a superlinear
// speed-up.
double karp_flatt(double speedup, int world);

struct Straggler {
  double skew = 0;          // busiest rank's step time without waiting / median of the other ranks' - 1
  std::optional<int> rank;  // the rank that is far slower than the others in all launches; unset if there is none
};
// Returns how far the busiest rank lags behind the others, or nullopt for a single rank or if waiting times are
// unknown.
std::optional<Straggler> straggler_of(const CaseRecord& record);

}  // namespace dpbench
