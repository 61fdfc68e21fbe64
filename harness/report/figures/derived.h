// Figures derived from a case's measurements; formulas and sources are in results/figures.md.
#pragma once

#include <map>
#include <optional>

#include "harness/report/record/report.h"

namespace dpbench {

// Maps each rank to its host, from the env block. A run on a single host may leave ranks out.
using HostOfRank = std::map<int, size_t>;
HostOfRank hosts_of_ranks(const Json& env);

// Fills the figures that depend on the case alone. Requires step_time_ns.
void derive(CaseRecord& record, const HostOfRank& hosts);
// Fills the speed-ups, which depend on other cases. Call it after derive() of all cases.
void derive_speedups(Report& report);

// Returns the case with world 1 and the same strategy, parameters, backend and batch (global for strong scaling, per
// device for weak), or null.
const CaseRecord* own_world_1_of(const Report& report, const CaseSpec& spec);

// The serial fraction of A. H. Karp and H. P. Flatt; below 0 for a superlinear speed-up.
double karp_flatt(double speedup, int world);

struct Straggler {
  double skew = 0;          // step time without waiting: busiest rank / median of the others - 1
  std::optional<int> rank;  // set if the same rank is far slower than the others in all launches
};
// Returns nullopt for a single rank, or if waiting times are unknown.
std::optional<Straggler> straggler_of(const CaseRecord& record);

}  // namespace dpbench
