// Groups the comparable cases of a run and computes the speed and memory by which they are ranked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// A figure with its 95 % interval.
struct Estimate {
  double middle = 0, low = 0, high = 0;
};
// Returns a / b with the interval from a.low / b.high to a.high / b.low. This interval excludes 1 if and only if the
// intervals of a and b do not overlap, so its confidence is at least 95 % for independent normal errors.
Estimate quotient(const Estimate& a, const Estimate& b);
inline bool above(const Estimate& a, const Estimate& b) { return a.low > b.high; }

// Shares of a profiled step spent in communication and in waiting for other ranks; the rest is computation.
struct StepParts {
  double communication = 0, waiting = 0;
};

struct RankedCase {
  const CaseRecord* record = nullptr;
  std::string label;
  // A speed-up over the reference if CaseGroup::paired is set, else samples per second.
  std::optional<Estimate> speed;
  // The case's reference, and the speed-up over it from blocks of both that were timed in turn; null and empty without.
  const CaseRecord* reference = nullptr;
  std::optional<Estimate> over_reference;
  std::optional<Estimate> memory;  // peak bytes; comparable between cases with equal numbers of processes
  std::optional<StepParts> parts;
};

struct CaseGroup {
  // The cases of the group by falling speed; cases without a speed last. First is one that no other is faster() than.
  std::vector<RankedCase> members;
  bool paired = false;  // true: speeds are speed-ups over one reference case, from pairs of blocks
  int launches = 0;     // smallest number of launches of any case of the group
};

struct CaseGroups {
  std::vector<CaseGroup> groups;
  std::vector<NotRanked> not_ranked;
};
CaseGroups groups_of(const Report& report);

// Returns the speed of `a` divided by that of `b`, from paired blocks if both cases have them with the same reference;
// nullopt if a speed is unknown.
std::optional<Estimate> speed_ratio(const RankedCase& a, const RankedCase& b);
// True if the interval of their speed_ratio() is above 1.
bool faster(const RankedCase& a, const RankedCase& b);
// True if the memory of two cases can be compared: both have a figure, for the same number of processes.
bool memory_compares(const RankedCase& a, const RankedCase& b);

}  // namespace dpbench
