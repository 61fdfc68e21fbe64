// Tests which axes of a mesh stay within a host and which axes cross hosts.
#include "harness/front/plan/mesh_hosts.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace dpbench {
namespace {

using Texts = std::vector<std::string>;

TEST(AxesOnHosts, AnAxisIsWithinAHostIfEachGroupOfItsRanksIs) {
  const std::vector<int> two_each = {0, 0, 1, 1}, uneven = {0, 0, 0, 1};
  EXPECT_EQ(axes_on_hosts(parse_mesh("dp=2,tp=2"), two_each), (Texts{"dp between hosts, tp within a host"}));
  EXPECT_EQ(axes_on_hosts(parse_mesh("dp=4"), two_each), (Texts{"dp between hosts"}));
  EXPECT_EQ(axes_on_hosts(parse_mesh("dp=2,pp=2"), uneven), (Texts{"dp between hosts, pp between hosts"}));
}

TEST(AxesOnHosts, ForATpAxisBetweenHostsAMeshThatKeepsItWithinAHostIsSuggested) {
  const std::vector<int> two_each = {0, 0, 1, 1};
  const Texts with_advice = axes_on_hosts(parse_mesh("tp=2,dp=2"), two_each);
  ASSERT_EQ(with_advice.size(), 2u);
  EXPECT_TRUE(mentions_in_order(with_advice[0], {"tp between", "dp within"}));
  EXPECT_TRUE(mentions_in_order(with_advice[1], {"tp ", "--mesh dp=2,tp=2"}));
  EXPECT_EQ(axes_on_hosts(parse_mesh("tp=4"), two_each), (Texts{"tp between hosts"})) << "there is no better mesh";
  EXPECT_EQ(axes_on_hosts(parse_mesh("cp=2,tp=2"), two_each), (Texts{"cp between hosts, tp within a host"}))
      << "tp would be between hosts";
  EXPECT_EQ(axes_on_hosts(parse_mesh("pp=2,dp=2"), two_each), (Texts{"pp between hosts, dp within a host"}));
}

}  // namespace
}  // namespace dpbench
