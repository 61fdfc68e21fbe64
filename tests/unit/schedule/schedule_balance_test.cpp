// Tests how blocks of a model are divided among pipeline stages.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "strategies/schedule/balance.h"

namespace dpbench::pipeline {
namespace {

// Cuts the layers from number `first` on into stages in every possible way. Returns the smallest cost that the most
// expensive stage can have.
double least_longest(const std::vector<double>& costs, size_t first, int64_t stages) {
  if (stages == 1) return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(first), costs.end(), 0.0);
  double best = 1e9, sum = 0;
  for (size_t last = first + 1; last + static_cast<size_t>(stages) - 1 <= costs.size(); ++last) {
    sum += costs[last - 1];
    best = std::min(best, std::max(sum, least_longest(costs, last, stages - 1)));
  }
  return best;
}

TEST(PipelineStages, AreCutSoThatTheLongestStageIsAsShortAsPossible) {
  const std::vector<std::vector<double>> all = {
      {0, 1, 1, 1, 1, 0, 2}, {0, 3, 3, 3, 0, 7}, {5, 1, 1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 9}};
  for (const auto& costs : all)
    for (int64_t stages = 1; stages <= static_cast<int64_t>(costs.size()); ++stages) {
      const std::vector<int64_t> sizes = balanced_sizes(costs, stages);
      ASSERT_EQ(sizes.size(), static_cast<size_t>(stages));
      double longest = 0;
      size_t next = 0;
      for (const int64_t size : sizes) {
        EXPECT_GE(size, 1);
        double sum = 0;
        for (int64_t i = 0; i < size; ++i) sum += costs.at(next++);
        longest = std::max(longest, sum);
      }
      EXPECT_EQ(next, costs.size());
      EXPECT_NEAR(longest, least_longest(costs, 0, stages), 1e-6) << stages << " stages of " << costs.size();
    }
}

}  // namespace
}  // namespace dpbench::pipeline
