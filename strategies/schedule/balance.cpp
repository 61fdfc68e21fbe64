#include "strategies/schedule/balance.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace dpbench::pipeline {
namespace {

// Gives each stage, in order, as many blocks as cost at most `limit` together, but leaves at least one block for each
// later stage. Returns the number of blocks per stage; an empty list if the limit is too small.
std::vector<int64_t> filled(const std::vector<double>& costs, int64_t stages, double limit) {
  std::vector<int64_t> sizes;
  size_t next = 0;
  for (int64_t stage = 0; stage < stages; ++stage) {
    // One block per later stage must remain.
    const size_t spare = costs.size() - static_cast<size_t>(stages - stage - 1);
    double sum = 0;
    const size_t first = next;
    while (next < spare && (next == first || sum + costs[next] <= limit)) sum += costs[next++];
    if (sum > limit) return {};
    sizes.push_back(static_cast<int64_t>(next - first));
  }
  return next == costs.size() ? sizes : std::vector<int64_t>{};
}

}  // namespace

std::vector<int64_t> balanced_sizes(const std::vector<double>& costs, int64_t stages) {
  const double rounding = 1 + 1e-9;
  double low = *std::ranges::max_element(costs), high = std::accumulate(costs.begin(), costs.end(), 0.0);
  std::vector<int64_t> best = filled(costs, stages, high * rounding);
  for (int round = 0; round < 50; ++round) {
    const double middle = (low + high) / 2;
    std::vector<int64_t> sizes = filled(costs, stages, middle * rounding);
    if (sizes.empty()) {
      low = middle;
    } else {
      high = middle;
      best = std::move(sizes);
    }
  }
  return best;
}

}  // namespace dpbench::pipeline
