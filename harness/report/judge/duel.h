// Judges a duel: two builds whose timed blocks of steps alternate in pairs, one block of each build. A case is judged
// after 20, 40, 80 and 160 pairs; each of these interim analyses is called a look.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/report/stats/welch.h"

namespace dpbench {

struct DuelRule {
  std::vector<int> looks = {20, 40, 80, 160};  // numbers of pairs at which a case is judged
  double alpha = 0.0025;                       // significance level of one look, to be divided by the number of cases
  double least = 0.025;                        // smallest median change for the verdict slower or faster
  double same_within = 0.045;  // margin: a change significantly smaller than this gets the verdict "same"
  double most_noise = 0.15;    // highest noise of the pairs; above it the verdict is unclear
};

// The result of one look, an interim analysis of a case's pairs of timed blocks (one block of each build).
struct DuelLook {
  int pairs = 0;
  int launches = 0;                   // number of launches (starts of both builds) that measured the pairs
  double change = 0;                  // median over the pairs of log(new / base)
  double low = 0, high = 0;           // bounds of the median's confidence interval: at least 95 %, for any distribution
  double noise = 0;                   // robust standard deviation of the log ratios of single pairs
  double p_slower = 1, p_faster = 1;  // one-sided p-values of a slower or faster new build; null hypothesis: no change
  double p_same = 1;  // p-value of "same"; null hypothesis: a change of at least same_within, either way
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
