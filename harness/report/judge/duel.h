// Judges a duel: two builds whose timed blocks of steps alternate in pairs, one block of each build. A case is judged
// after 20, 40, 80 and 160 pairs; each of these interim analyses is called a look.
#pragma once

#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/base/field.h"
#include "harness/report/stats/welch.h"

namespace dpbench {

struct DuelRule {
  std::vector<int> looks = {20, 40, 80, 160};
  double alpha = 0.0025;
  double least_percent = 2.5, same_within_percent = 4.5, most_noise_percent = 15;
};

template <>
struct Table<DuelRule> {
  using R = DuelRule;
  static constexpr const char* name = "rule";
  static constexpr std::tuple fields{
      Field{"looks", "-", &R::looks, "numbers of pairs at which a case is judged", range::positive},
      Field{"alpha", "-", &R::alpha, "significance level of a look; divided by the number of cases", range::above_zero},
      Field{"least_percent", "-", &R::least_percent, "smaller changes are never slower or faster", range::above_zero},
      Field{"same_within_percent", "-", &R::same_within_percent, "a change significantly smaller than this is same",
            range::above_zero},
      Field{"most_noise_percent", "-", &R::most_noise_percent, "with noisier pairs, the verdict is unclear",
            range::above_zero}};
};

// The result of one look, an interim analysis of a case's pairs of timed blocks (one block of each build).
struct DuelLook {
  int pairs = 0;
  int launches = 0;                   // number of launches (starts of both builds) that measured the pairs
  double change = 0;                  // median over the pairs of log(new / base)
  double low = 0, high = 0;           // bounds of the median's confidence interval: at least 95 %, for any distribution
  double noise = 0;                   // robust standard deviation of the log ratios of single pairs
  double p_slower = 1, p_faster = 1;  // one-sided p-values of a slower or faster new build; null hypothesis: no change
  double p_same = 1;  // p-value of "same"; null hypothesis: a change of at least same_within_percent, either way
  Verdict verdict = Verdict::unclear;
};

// Judges one case from its pairs of blocks. log_ratios: log(new / base) of each pair. launches: number of starts of
// both builds; with fewer than launches_to_judge the verdict is unclear, because one start can shift all of its pairs.
// cases: number of cases judged in the duel.
DuelLook duel_look(std::span<const double> log_ratios, int launches, const DuelRule& rule, size_t cases);

// Returns the reason and a remedy for a case whose verdict is unclear after its last look (interim analysis).
std::string why_unclear(const DuelLook& look, const DuelRule& rule);

// Returns the number of pairs at which the next look (interim analysis) after `pairs` is due, or 0 after the last.
int next_look(const DuelRule& rule, int pairs);

}  // namespace dpbench
