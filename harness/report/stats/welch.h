// Change of a figure between two runs, with a confidence interval: Welch's t over groups of launches.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "harness/report/stats/stats.h"

namespace dpbench {

// A group of launches. The change is linear in the mean of its values.
struct Term {
  double coefficient = 1;
  Moments moments;
};

struct Change {
  double estimate = 0, low = 0, high = 0;  // above 0: worse; the interval is 95 %
};

// Combines the terms' variances, with Welch-Satterthwaite degrees of freedom. The bounds are infinite if any term has
// fewer than two launches.
Change welch_change(double estimate, std::span<const Term> terms);

enum class Verdict { slower, unclear, faster, same };
template <>
inline constexpr auto enum_names<Verdict> = std::to_array<std::string_view>({"SLOWER", "unclear", "faster", "same"});

inline constexpr int64_t launches_to_judge = 4;  // with 3 per side, no rank test can be significant

// Rules, in this order: too few launches is unclear; slower needs an estimate above the limit and an interval that
// excludes "no change"; an interval that contains the limit is unclear; faster mirrors these two rules.
Verdict verdict_of(const Change& change, double limit, int64_t fewest_launches);

}  // namespace dpbench
