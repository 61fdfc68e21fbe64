#include "workloads/data/sampler.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

std::vector<int64_t> list(const at::Tensor& t) {
  return {t.const_data_ptr<int64_t>(), t.const_data_ptr<int64_t>() + t.numel()};
}

std::vector<int64_t> indices(const SamplerOptions& options, int64_t epoch = 0) {
  DistributedSampler sampler(options);
  sampler.set_epoch(epoch);
  return list(sampler.indices());
}

using List = std::vector<int64_t>;

// Expected values from Python: torch.randperm(10, generator=torch.Generator().manual_seed(3)).tolist()
TEST(EpochOrder, EqualsPyTorchsRandpermOfSeedPlusEpoch) {
  const List expected{6, 0, 3, 7, 8, 5, 1, 9, 2, 4};
  EXPECT_EQ(list(epoch_order(10, 3, 0, true)), expected);
  EXPECT_EQ(list(epoch_order(10, 1, 2, true)), expected);
  EXPECT_EQ(list(epoch_order(4, 9, 9, false)), (List{0, 1, 2, 3}));
}

// Expected values from Python: s = DistributedSampler(range(samples), num_replicas=world, rank=rank, shuffle=...,
// seed=..., drop_last=...); s.set_epoch(epoch); list(s)
TEST(DistributedSampler, EqualsPyTorchsIndices) {
  struct Example {
    SamplerOptions options;
    int64_t epoch;
    List expected;
  };
  const std::vector<Example> examples{
      {{.samples = 10, .world = 3, .rank = 0}, 0, {4, 5, 0, 2}},
      {{.samples = 10, .world = 3, .rank = 1}, 0, {1, 3, 8, 4}},
      {{.samples = 10, .world = 3, .rank = 2}, 0, {7, 9, 6, 1}},
      {{.samples = 10, .world = 3, .rank = 1, .seed = 5}, 2, {0, 1, 6, 5}},
      {{.samples = 10, .world = 3, .rank = 2, .drop_last = true}, 0, {7, 9, 6}},
      {{.samples = 3, .world = 8, .rank = 7}, 0, {0}},
      {{.samples = 3, .world = 8, .rank = 4}, 0, {0}},
      {{.samples = 10, .world = 4, .rank = 3, .shuffle = false}, 0, {3, 7, 1}},
      {{.samples = 10, .world = 4, .rank = 3, .shuffle = false, .drop_last = true}, 0, {3, 7}},
      {{.samples = 3, .world = 8, .rank = 0, .drop_last = true}, 0, {}},
      {{.samples = 2, .world = 7, .rank = 6, .seed = 1}, 1, {0}},
  };
  for (size_t i = 0; i < examples.size(); ++i)
    EXPECT_EQ(indices(examples[i].options, examples[i].epoch), examples[i].expected) << "example " << i;
}

TEST(DistributedSampler, EqualsPyTorchsIndicesForAWholeMnistEpoch) {
  const auto got = indices({.samples = 60'000, .world = 8, .rank = 5, .seed = 7}, 3);
  ASSERT_EQ(got.size(), 7500u);
  EXPECT_EQ(List(got.begin(), got.begin() + 5), (List{53280, 5337, 46086, 58195, 39364}));
  EXPECT_EQ(List(got.end() - 3, got.end()), (List{8118, 39966, 52090}));
  EXPECT_EQ(std::accumulate(got.begin(), got.end(), int64_t{0}), 227'620'238);
}

TEST(DistributedSampler, RanksGetEqualCountsAndEachSampleAtMostOnceApartFromPadding) {
  for (const int64_t world : {1, 2, 3, 7, 8})
    for (const bool drop_last : {false, true}) {
      std::map<int64_t, int> seen;
      int64_t each = -1;
      for (int64_t rank = 0; rank < world; ++rank) {
        const auto rank_indices =
            indices({.samples = 100, .world = world, .rank = rank, .seed = 3, .drop_last = drop_last}, 1);
        for (const int64_t id : rank_indices) ++seen[id];
        if (each < 0) each = static_cast<int64_t>(rank_indices.size());
        EXPECT_EQ(static_cast<int64_t>(rank_indices.size()), each);
      }
      const int64_t total = each * world;
      EXPECT_EQ(static_cast<int64_t>(seen.size()), std::min<int64_t>(total, 100));
      for (const auto& [id, times] : seen) EXPECT_LE(times, total > 100 ? 2 : 1) << id;
    }
}

TEST(DistributedSampler, OrderChangesWithTheEpoch) {
  EXPECT_NE(indices({.samples = 100}, 0), indices({.samples = 100}, 1));
  EXPECT_EQ(indices({.samples = 100}, 1), indices({.samples = 100, .seed = 1}, 0));
}

TEST(DistributedSampler, RefusesARankOutsideItsWorldAndAnEmptyDataset) {
  EXPECT_THROW(DistributedSampler({.samples = 10, .world = 2, .rank = 2}), std::runtime_error);
  EXPECT_THROW(DistributedSampler({.samples = 0}), std::runtime_error);
}

TEST(DistributedSampler, AssignsEveryNthSampleOfAGlobalBatchToARank) {
  const auto order = epoch_order(48, 5, 0, true);
  for (int64_t rank = 0; rank < 3; ++rank) {
    const DistributedSampler sampler({.samples = 48, .world = 3, .rank = rank, .seed = 5});
    for (int64_t step = 0; step < 4; ++step) {
      const auto batch = order.slice(0, step * 12, step * 12 + 12);
      EXPECT_TRUE(at::equal(batch.slice(0, rank, 12, 3), sampler.indices().slice(0, step * 4, step * 4 + 4)));
    }
  }
}

}  // namespace
}  // namespace dpbench
