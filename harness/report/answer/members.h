// Which cases of a run can be compared with each other, and the speed and memory by which they are ranked.
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
// Returns a / b by interval arithmetic. It excludes 1 exactly if the intervals of a and b do not overlap, so its
// confidence is at least 95 % for independent normal errors.
Estimate quotient(const Estimate& a, const Estimate& b);
inline bool above(const Estimate& a, const Estimate& b) { return a.low > b.high; }

// The shares of a profiled step that are not the computation of one device.
struct StepParts {
  double communication = 0, waiting = 0;
};

struct RankedCase {
  const CaseRecord* record = nullptr;
  std::string label;
  std::optional<Estimate> speed;   // relative throughput; comparable within the group
  std::optional<Estimate> memory;  // bytes; comparable between members with equal numbers of processes
  std::optional<StepParts> parts;
};

struct CaseGroup {
  std::vector<RankedCase> members;  // fastest first; those without a speed last, in the order of the report
  bool paired = false;              // speeds are medians over pairs with blocks of a common reference
  int launches = 0;                 // fewest launches of a member
};

struct CaseGroups {
  std::vector<CaseGroup> groups;
  std::vector<NotRanked> not_ranked;
};
CaseGroups groups_of(const Report& report);

// True if the memory of these members can be compared: both have a figure, for the same number of processes.
bool memory_compares(const RankedCase& a, const RankedCase& b);

}  // namespace dpbench
