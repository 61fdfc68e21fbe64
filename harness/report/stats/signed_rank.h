// Wilcoxon's signed-rank test: whether paired differences lie above zero, whatever their distribution's tails.
#pragma once

#include <span>

namespace dpbench {

// The probability of ranks this high if the differences were symmetric about 0: small means they lie above it. Zeros
// say nothing and are left out; equal sizes share their rank. Exact for 50 differences or fewer, normal beyond.
double signed_rank_p_above(std::span<const double> differences);

}  // namespace dpbench
