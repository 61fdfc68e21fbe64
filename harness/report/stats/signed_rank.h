// Wilcoxon's signed-rank test: tells if paired differences are above zero. Robust against heavy tails.
#pragma once

#include <span>

namespace dpbench {

// Returns the one-sided p-value of the signed-rank test: the probability of a positive rank sum this high if the
// differences were symmetric about 0. Zeros are dropped; equal magnitudes share their rank. The p-value is exact for up
// to 50 differences, else a normal approximation.
double signed_rank_p_above(std::span<const double> differences);

}  // namespace dpbench
