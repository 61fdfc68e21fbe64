// Figures worked out from a case's measurements; formulas and sources in results/README.md.
#pragma once

#include <map>
#include <optional>

#include "harness/report/record/report.h"

namespace dpbench {

// Which host each rank ran on, by the env block; a rank that it does not name ran on the one host that there was.
using HostOfRank = std::map<int, size_t>;
HostOfRank hosts_of_ranks(const Json& env);

// From the case alone: it has step_time_ns.
void derive(CaseRecord& record, const HostOfRank& hosts);
// From other rows of the report: speed-ups. After derive() of all.
void derive_speedups(Report& report);

// The row of the same strategy, parameters and backend in a world of one: the same global batch (strong) or batch per
// device (weak).
const CaseRecord* own_world_1_of(const Report& report, const CaseSpec& spec);

// A. H. Karp and H. P. Flatt's serial fraction; below 0 where a speed-up is more than linear.
double karp_flatt(double speedup, int world);

struct Straggler {
  double skew = 0;          // the busiest rank's time without waiting / the middle of the others', -1
  std::optional<int> rank;  // the same one in all launches, and far from the others
};
// Nothing for a single rank, or where waiting is unknown.
std::optional<Straggler> straggler_of(const CaseRecord& record);

}  // namespace dpbench
