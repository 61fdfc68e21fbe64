// Tests shapes of meshes: their text form, the groups of each axis, and the samples that a rank gets.
#include <gtest/gtest.h>

#include "tests/support/contains.h"
#include "workloads/base/mesh_shape.h"

namespace dpbench {
namespace {

using Groups = std::vector<std::vector<int>>;

TEST(GroupsOfAxis, AreRowMajorWithNeighboursOnTheLastAxis) {
  const MeshShape shape = {{"dp", 2}, {"pp", 3}, {"tp", 2}};
  EXPECT_EQ(groups_of_axis(shape, 0), (Groups{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(groups_of_axis(shape, 1), (Groups{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}));
  EXPECT_EQ(groups_of_axis(shape, 2), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}));
}

TEST(NamedGroups, ListTheGroupsOfEachAxisAndOfItsPartsOfNeighbouringRanks) {
  const auto groups = named_groups({{"shard", 4, 2}, {"tp", 2}});
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].name, "shard");
  EXPECT_EQ(groups[0].groups, (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(groups[1].name, "shard/2");
  EXPECT_EQ(groups[1].groups, (Groups{{0, 2}, {4, 6}, {1, 3}, {5, 7}}));
  EXPECT_EQ(groups[2].name, "tp");
}

TEST(MeshText, IsParsedAndAxesOfOneRankAreDropped) {
  EXPECT_EQ(parse_mesh("dp=2,tp=3"), (MeshShape{{"dp", 2}, {"tp", 3}}));
  EXPECT_EQ(parse_mesh("shard=2,dp=1,tp=1"), (MeshShape{{"shard", 2}}));
  EXPECT_EQ(parse_mesh(""), MeshShape{});
  EXPECT_EQ(text_of(parse_mesh("dp=2,shard=4")), "dp=2,shard=4");
  EXPECT_EQ(text_of({{"dp", 2}, {"shard", 4, 2}}), "dp=2,shard=4/2");
  EXPECT_TRUE(is_plain(parse_mesh("dp=8,tp=1")));
  EXPECT_FALSE(is_plain(parse_mesh("shard=8")));
}

TEST(MeshText, IsRefusedWithTheReasonIfInvalid) {
  const auto refusal_of = [](const std::string& text) -> std::string {
    try {
      parse_mesh(text);
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  const auto refused = [&](const std::string& text, std::initializer_list<std::string_view> words) {
    const std::string reason = refusal_of(text);
    return reason.starts_with("mesh " + text + ": ") ? mentions_in_order(reason, words)
                                                     : testing::AssertionFailure() << reason;
  };
  EXPECT_TRUE(refused("dp=2,zz=2", {"'zz'", "dp, shard, cp, ep, pp, tp"}));
  EXPECT_TRUE(refused("dp=2,dp=2", {": ", "axis dp", "twice"}));
  EXPECT_TRUE(refused("dp=2,", {"''", "AXIS=RANKS"}));
  EXPECT_TRUE(refused("4", {"'4'", "AXIS=RANKS"}));
  for (const char* number : {"0", "-1", "two", "2x", "4/2", "", "9999999999"})
    EXPECT_TRUE(refused("tp=" + std::string(number), {": tp ", "ranks", "1 or more"}));
  EXPECT_TRUE(refused("dp=1000,tp=1000", {": ", "65536 ranks"}));
}

std::vector<int> replicas(const MeshShape& shape) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks_of(shape); ++rank) all.push_back(data_place(shape, 0, rank).replica);
  return all;
}

TEST(RankSamples, DependOnTheRanksPlacesOnDpAndShardButNotOnTpAndPp) {
  EXPECT_EQ(replicas({{"dp", 2}, {"tp", 2}}), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(replicas({{"pp", 2}, {"dp", 2}}), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(replicas({{"dp", 2}, {"tp", 2}, {"shard", 2}}), (std::vector<int>{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(data_place({{"dp", 2}, {"tp", 2}, {"shard", 2}}, 8, 7).replicas, 4);
  EXPECT_EQ(data_place({{"tp", 4}}, 4, 3).replicas, 1);
  EXPECT_EQ(data_place({}, 5, 3).replica, 3);
  EXPECT_EQ(data_place({}, 5, 3).replicas, 5);
}

TEST(RankCoordinates, GiveThePositionOnEachAxis) {
  EXPECT_EQ(coordinates({{"dp", 2}, {"pp", 3}, {"tp", 2}}, 9), "dp=1,pp=1,tp=1");
  EXPECT_EQ(coordinates({{"dp", 2}, {"shard", 4, 2}}, 7), "dp=1,shard=3");
}

}  // namespace
}  // namespace dpbench
