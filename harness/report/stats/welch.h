// Change of a figure between two runs, with a confidence interval by Welch's t over groups of launches.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "harness/report/stats/stats.h"

namespace dpbench {

// One term of a change: the launches of one case in one run. The change is linear in the mean of their values.
struct Term {
  double coefficient = 1;
  Moments moments;
};

struct Change {
  // Estimate above 0: the new run is worse; low and high bound the 95 % interval.
  double estimate = 0, low = 0, high = 0;
};

// Returns the change with its 95 % interval, combining the variances of all terms with Welch-Satterthwaite degrees of
// freedom. The bounds are infinite if any term has fewer than two launches.
Change welch_change(double estimate, std::span<const Term> terms);

enum class Verdict { slower, unclear, faster, same };
template <>
inline constexpr auto enum_names<Verdict> = std::to_array<std::string_view>({"SLOWER", "unclear", "faster", "same"});

// Minimum launches of each run for a verdict; with 3, no rank test can be significant.
inline constexpr int64_t launches_to_judge = 4;

// Returns the verdict on a change by rules in this order. Too few launches: unclear. Estimate above the limit and
// interval above 0: slower. Interval containing the limit: unclear. The same two rules for -limit give faster or
// unclear. Any other change: same. fewest_launches: launches of the run that has fewer.
Verdict verdict_of(const Change& change, double limit, int64_t fewest_launches);

}  // namespace dpbench
