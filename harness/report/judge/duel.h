// Judges two builds from pairs of blocks measured in turn: four verdicts, looked for at 20, 40, 80 and 160 pairs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/report/stats/welch.h"

namespace dpbench {

struct DuelRule {
  std::vector<int> looks = {20, 40, 80, 160};  // pairs
  double alpha = 0.0025;                       // of a look and a case: divided by the number of cases
  double least = 0.025;                        // a smaller change is none
  double same_within = 0.045;                  // surely less than this is the same
  double most_noise = 0.15;                    // of pairs: beyond it nothing is said
};

// What the pairs taken so far say.
struct DuelLook {
  int pairs = 0;
  int launches = 0;                   // that they came from
  double change = 0;                  // median of log(new / base)
  double low = 0, high = 0;           // of the median: at least 95 %, whatever the distribution
  double noise = 0;                   // of a pair: robust standard deviation of the log ratio
  double p_slower = 1, p_faster = 1;  // one-sided, of no change
  double p_same = 1;                  // of a change of same_within or more, either way
  Verdict verdict = Verdict::unclear;
};

// log_ratios: log(new / base) of every pair, from so many starts of both builds: fewer than launches_to_judge say
// nothing, for what one start does to all its pairs is no difference of the builds. cases: how many are judged with it.
DuelLook duel_look(std::span<const double> log_ratios, int launches, const DuelRule& rule, size_t cases);

// Why a duel that ends with this look is unclear, and what to do.
std::string why_unclear(const DuelLook& look, const DuelRule& rule);

// At which number of pairs the next look is; 0: there is none after so many.
int next_look(const DuelRule& rule, int pairs);

}  // namespace dpbench
