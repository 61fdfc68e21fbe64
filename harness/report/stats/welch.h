// Change of a metric between two runs, with a confidence interval by Welch's t over groups of launches (starts of a
// case's processes).
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "harness/report/stats/stats.h"

namespace dpbench {

// One term of a change: coefficient * mean over the launches of one case in one run. The change is the sum of its
// terms.
struct Term {
  double coefficient = 1;
  Moments moments;
};

struct Change {
  // The estimated change, above 0 if the new run is worse, and the bounds of its 95 % interval.
  double estimate = 0, low = 0, high = 0;
};

// Returns `estimate` with its 95 % interval, combining the variances of all terms with Welch-Satterthwaite degrees of
// freedom. The bounds are infinite if any term has fewer than two launches.
Change welch_change(double estimate, std::span<const Term> terms);

enum class Verdict { slower, unclear, faster, same };
template <>
inline constexpr auto enum_names<Verdict> = std::to_array<std::string_view>({"SLOWER", "unclear", "faster", "same"});

// Minimum number of launches (starts of a case's processes) per run for a verdict. With 3 launches against 3, no rank
// test can be significant.
inline constexpr int64_t launches_to_judge = 4;

// Returns the verdict on a change by the first rule that applies. Too few launches: unclear. Estimate above the limit
// and interval above 0: slower. Interval containing the limit: unclear. Estimate below -limit and interval below 0:
// faster. Interval containing -limit: unclear. Any other change: same. fewest_launches: number of launches in the run
// that has fewer of them.
Verdict verdict_of(const Change& change, double limit, int64_t fewest_launches);

// Returns the verdict on a metric's distance from an absolute limit. Interval above 0: slower. Interval at or below 0:
// same. Otherwise, or with fewer than launches_for_t launches: unclear.
Verdict verdict_of_bound(const Change& distance, int64_t launches);

}  // namespace dpbench
