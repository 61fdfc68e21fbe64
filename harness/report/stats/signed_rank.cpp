#include "harness/report/stats/signed_rank.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dpbench {
namespace {

constexpr size_t exact_up_to = 50;

struct Ranked {
  // Twice the rank of each difference, so that the mean rank of equal magnitudes stays an integer.
  std::vector<int> doubled;
  int above = 0;    // twice the rank sum of the positive differences
  double ties = 0;  // tie correction: sum of t^3 - t over groups of t equal magnitudes
};

Ranked rank(std::span<const double> differences) {
  std::vector<double> values;
  std::copy_if(differences.begin(), differences.end(), std::back_inserter(values), [](double d) { return d != 0; });
  std::sort(values.begin(), values.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  Ranked ranked;
  for (size_t first = 0, last = 0; first < values.size(); first = last) {
    while (last < values.size() && std::abs(values[last]) == std::abs(values[first])) ++last;
    const auto count = static_cast<double>(last - first);
    ranked.ties += count * count * count - count;
    for (size_t i = first; i < last; ++i) {
      ranked.doubled.push_back(static_cast<int>(first + last + 1));
      if (values[i] > 0) ranked.above += ranked.doubled.back();
    }
  }
  return ranked;
}

// Returns the exact p-value of the signed-rank test over all 2^n sign assignments, built up one rank at a time.
double exact(const Ranked& ranked) {
  int total = 0;
  for (const int r : ranked.doubled) total += r;
  // share[s]: fraction of the sign assignments whose doubled positive rank sum is s.
  std::vector<double> share(static_cast<size_t>(total) + 1, 0);
  share[0] = 1;
  int reached = 0;
  for (const int r : ranked.doubled) {
    reached += r;
    for (int sum = reached; sum >= 0; --sum)
      share[static_cast<size_t>(sum)] =
          (share[static_cast<size_t>(sum)] + (sum >= r ? share[static_cast<size_t>(sum - r)] : 0)) / 2;
  }
  double p = 0;
  for (int sum = total; sum >= ranked.above; --sum) p += share[static_cast<size_t>(sum)];
  return p;
}

double normal(const Ranked& ranked) {
  const auto n = static_cast<double>(ranked.doubled.size());
  const double mean = n * (n + 1) / 4, variance = n * (n + 1) * (2 * n + 1) / 24 - ranked.ties / 48;
  const double z = (ranked.above / 2.0 - mean - 0.5) / std::sqrt(variance);
  return std::erfc(z / std::sqrt(2.0)) / 2;
}

}  // namespace

double signed_rank_p_above(std::span<const double> differences) {
  const Ranked ranked = rank(differences);
  if (ranked.doubled.empty()) return 1;
  return ranked.doubled.size() <= exact_up_to ? exact(ranked) : normal(ranked);
}

}  // namespace dpbench
