// The search of `dpbench tune --find-batch` for the largest batch that fits.
#include "harness/front/run/find_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "harness/front/run/table.h"

namespace dpbench::testing {
namespace {

TEST(FindBatch, FindsTheLimitFromBelowAndFromAboveAndTriesNoBatchTwice) {
  for (const int64_t start : {1, 5, 64, 1000})
    for (const int64_t limit : {0, 1, 2, 7, 63, 64, 65, 999, 4096}) {
      std::set<int64_t> tried;
      const int64_t found = largest_batch(start, {.most = 1 << 20}, [&](int64_t batch) {
        EXPECT_TRUE(batch > 0 && tried.insert(batch).second) << batch;
        return batch <= limit ? BatchTrial::fits : BatchTrial::refused;
      });
      EXPECT_EQ(found, limit) << "from " << start;
      EXPECT_LE(tried.size(), 26) << "from " << start << " to " << limit;
    }
}

TEST(FindBatch, EndsAtTheLargestAllowedBatchOrWhenATrialAsksToStop) {
  const auto yes = [](int64_t) { return BatchTrial::fits; };
  EXPECT_EQ(largest_batch(3, {.most = 50}, yes), 50);
  EXPECT_EQ(largest_batch(80, {.most = 50}, yes), 50);
  int trials = 0;
  EXPECT_EQ(largest_batch(4, {}, [&](int64_t) { return ++trials == 3 ? BatchTrial::stop : BatchTrial::fits; }), 8);
  EXPECT_EQ(trials, 3);
}

TEST(FindBatch, TriesNoBatchBelowTheSmallestAllowed) {
  for (const int64_t limit : {0, 5, 6, 7}) {
    const auto fits = [&](int64_t batch) {
      EXPECT_GE(batch, 6);
      return batch <= limit ? BatchTrial::fits : BatchTrial::refused;
    };
    EXPECT_EQ(largest_batch(40, {.least = 6}, fits), std::max<int64_t>(limit, 5));
  }
}

TEST(FindBatch, TableShowsTheMemoryUsedWithTheBatchAndWhyALargerOneDoesNotFit) {
  FoundBatch found;
  found.spec.strategy = "fsdp", found.spec.workload = "gpt", found.spec.world = 2, found.batch = 37;
  found.spec.params = {{"reshard", "off"}};
  found.bytes = 1.5e9, found.samples_per_s = 123.4, found.limit = "takes 2.1 GB";
  FoundBatch none = found;
  none.batch.reset(), none.spec.mesh = "dp=2,tp=2", none.samples_per_s.reset(), none.limit = "out of memory: rank 0";
  const std::vector<Cells> rows = found_rows({found, none});
  EXPECT_EQ(rows.at(1), (Cells{"fsdp reshard=off", "gpt", "2", "37", "1.5 GB", "123.4", "takes 2.1 GB"}));
  EXPECT_EQ(rows.at(2),
            (Cells{"fsdp reshard=off", "gpt", "dp=2,tp=2", "none fits", "-", "-", "out of memory: rank 0"}));
}

}  // namespace
}  // namespace dpbench::testing
