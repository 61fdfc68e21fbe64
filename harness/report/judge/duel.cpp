#include "harness/report/judge/duel.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "harness/report/stats/signed_rank.h"

namespace dpbench {
namespace {

// Returns the one-sided p-value of the signed-rank test for values above `level`, or below it if sign is -1.
double p_above(std::span<const double> values, double level, double sign = 1) {
  std::vector<double> shifted;
  for (const double value : values) shifted.push_back(sign * (value - level));
  return signed_rank_p_above(shifted);
}

Verdict judged(const DuelLook& look, const DuelRule& rule, double alpha) {
  if (look.launches < launches_to_judge || look.noise > rule.most_noise_percent / 100) return Verdict::unclear;
  const double least = std::log1p(rule.least_percent / 100);
  if (look.p_slower < alpha && look.change > least) return Verdict::slower;
  if (look.p_faster < alpha && look.change < -least) return Verdict::faster;
  return look.p_same < alpha ? Verdict::same : Verdict::unclear;
}

}  // namespace

DuelLook duel_look(std::span<const double> log_ratios, int launches, const DuelRule& rule, size_t cases) {
  const Interval interval = median_interval(log_ratios);
  const double within = std::log1p(rule.same_within_percent / 100);
  DuelLook look{.pairs = static_cast<int>(log_ratios.size()),
                .launches = launches,
                .change = median(log_ratios),
                .low = interval.low,
                .high = interval.high,
                .noise = mad_to_sigma * mad(log_ratios),
                .p_slower = p_above(log_ratios, 0),
                .p_faster = p_above(log_ratios, 0, -1),
                .p_same = std::max(p_above(log_ratios, within, -1), p_above(log_ratios, -within))};
  look.verdict = judged(look, rule, rule.alpha / static_cast<double>(cases));
  return look;
}

std::string why_unclear(const DuelLook& look, const DuelRule& rule) {
  char text[160];
  if (look.launches < launches_to_judge)
    std::snprintf(text, sizeof text, "%d launches, at least %d are needed. Use a smaller --pairs-per-launch",
                  look.launches, static_cast<int>(launches_to_judge));
  else if (look.noise > rule.most_noise_percent / 100)
    std::snprintf(
        text, sizeof text,
        "pairs differ by %.1f %%; above %.0f %% nothing is judged. Use a quieter machine or longer blocks (--min-time)",
        100 * look.noise, rule.most_noise_percent);
  else
    std::snprintf(text, sizeof text,
                  "unclear after %d pairs with %.1f %% noise. Use a quieter machine or longer blocks (--min-time)",
                  look.pairs, 100 * look.noise);
  return text;
}

int next_look(const DuelRule& rule, int pairs) {
  for (const int look : rule.looks)
    if (look > pairs) return look;
  return 0;
}

}  // namespace dpbench
