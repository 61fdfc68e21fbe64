#include "harness/report/stats/welch.h"

#include <cmath>
#include <limits>

namespace dpbench {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

}  // namespace

Change welch_change(double estimate, std::span<const Term> terms) {
  double variance = 0, spread = 0;
  for (const Term& term : terms) {
    if (term.moments.n < 2) return {estimate, -infinite, infinite};
    const auto n = static_cast<double>(term.moments.n);
    const double part = term.coefficient * term.coefficient * term.moments.variance / n;
    variance += part;
    spread += part * part / (n - 1);
  }
  // A metric that is equal in all launches (e.g. a byte count) has an interval of width 0.
  if (!(spread > 0)) return {estimate, estimate, estimate};
  const double half = students_t_quantile(0.975, variance * variance / spread) * std::sqrt(variance);
  return {estimate, estimate - half, estimate + half};
}

Verdict verdict_of(const Change& change, double limit, int64_t fewest_launches) {
  const auto spans = [&](double at) { return change.low <= at && at <= change.high; };
  if (fewest_launches < launches_to_judge) return Verdict::unclear;
  if (change.estimate > limit && change.low > 0) return Verdict::slower;
  if (spans(limit)) return Verdict::unclear;
  if (change.estimate < -limit && change.high < 0) return Verdict::faster;
  if (spans(-limit)) return Verdict::unclear;
  return Verdict::same;
}

Verdict verdict_of_bound(const Change& distance, int64_t launches) {
  if (launches < launches_for_t) return Verdict::unclear;
  if (distance.low > 0) return Verdict::slower;
  return distance.high <= 0 ? Verdict::same : Verdict::unclear;
}

}  // namespace dpbench
