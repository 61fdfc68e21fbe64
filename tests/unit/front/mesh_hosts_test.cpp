// Tests which axes of a mesh stay within a host and which axes cross hosts.
#include "harness/front/plan/mesh_hosts.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace dpbench {
namespace {

using Texts = std::vector<std::string>;

const std::vector<int> two_each = {0, 0, 1, 1};

// Returns the text that tells which axes are between hosts. The test fails if a suggestion of another mesh follows.
std::string only_text(const std::string& mesh, const std::vector<int>& hosts = two_each) {
  const Texts texts = axes_on_hosts(parse_mesh(mesh), hosts);
  EXPECT_EQ(texts.size(), 1u) << mesh;
  return texts.at(0);
}

TEST(AxesOnHosts, AnAxisIsWithinAHostIfEachGroupOfItsRanksIs) {
  EXPECT_TRUE(mentions_in_order(only_text("dp=2,tp=2"), {"dp between", "tp within"}));
  EXPECT_TRUE(mentions_in_order(only_text("dp=4"), {"dp between"}));
  EXPECT_TRUE(mentions_in_order(only_text("dp=2,pp=2", {0, 0, 0, 1}), {"dp between", "pp between"}));
}

TEST(AxesOnHosts, ForATpAxisBetweenHostsAMeshThatKeepsItWithinAHostIsSuggested) {
  const Texts with_advice = axes_on_hosts(parse_mesh("tp=2,dp=2"), two_each);
  ASSERT_EQ(with_advice.size(), 2u);
  EXPECT_TRUE(mentions_in_order(with_advice[0], {"tp between", "dp within"}));
  EXPECT_TRUE(mentions_in_order(with_advice[1], {"tp ", "--mesh dp=2,tp=2"}));
  EXPECT_TRUE(mentions(only_text("tp=4"), {"tp between"})) << "there is no better mesh";
  EXPECT_TRUE(mentions_in_order(only_text("cp=2,tp=2"), {"cp between", "tp within"})) << "tp would be between hosts";
  EXPECT_TRUE(mentions_in_order(only_text("pp=2,dp=2"), {"pp between", "dp within"}));
}

}  // namespace
}  // namespace dpbench
