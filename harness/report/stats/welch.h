// How much worse a figure became between two runs, with its interval: Welch's t over groups of launches.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "harness/report/stats/stats.h"

namespace dpbench {

// A group of launches that a difference depends on, linearly, through the mean of its values.
struct Term {
  double coefficient = 1;
  Moments moments;
};

struct Change {
  double estimate = 0, low = 0, high = 0;  // above 0: worse; 95 %
};

// Variance by the terms' own, degrees of freedom by Welch and Satterthwaite; one launch alone says nothing: no bounds.
Change welch_change(double estimate, std::span<const Term> terms);

enum class Verdict { slower, unclear, faster, same };
template <>
inline constexpr auto enum_names<Verdict> = std::to_array<std::string_view>({"SLOWER", "unclear", "faster", "same"});

inline constexpr int64_t launches_to_judge = 4;  // with 3 a side no rank test could ever be significant

// In this order: too few launches or an interval about the limit is unclear; slower needs the estimate above the limit
// and an interval that excludes "no change"; faster is its mirror image.
Verdict verdict_of(const Change& change, double limit, int64_t fewest_launches);

}  // namespace dpbench
