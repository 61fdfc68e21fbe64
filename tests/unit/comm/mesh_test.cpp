// Tests that a mesh's process group on every axis has exactly the ranks of a row-major grid, over each backend.
#include <unistd.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "strategies/parts/compat.h"
#include "tests/support/contains.h"
#include "tests/unit/comm/mesh_ranks.h"
#include "workloads/base/error.h"

namespace dpbench::testing {
namespace {

// Throws unless this rank's group on the axis has exactly the ranks in `due`, in this order.
void require_members(const Axis& axis, const std::vector<int>& due, int rank) {
  check(axis.size == static_cast<int>(due.size()), axis.name + " has another size");
  check(due.at(static_cast<size_t>(axis.rank)) == rank, axis.name + " has this rank at another place");
  if (axis.size == 1) return check(!axis.group, axis.name + " has a group of one rank");
  at::Tensor mine = at::full({1}, rank, at::kLong), all = at::empty({axis.size}, at::kLong);
  allgather_flat(*axis.group, all, mine);
  require_equal(all, at::tensor(std::vector<int64_t>(due.begin(), due.end())), axis.name);
}

TEST(MeshOfRanks, GroupsRanksOnEachAxisAndOnEachPartOfAnAxisAsInARowMajorGrid) {
  const std::vector<MeshShape> meshes = {{{"dp", 2}},
                                         {{"dp", 1}, {"tp", 3}},
                                         {{"dp", 2}, {"tp", 2}},
                                         {{"dp", 2}, {"cp", 1}, {"tp", 3}},
                                         {{"shard", 4, 2}},
                                         {{"dp", 1}, {"shard", 4, 2}, {"tp", 1}}};
  for (const Kind& kind : kinds)
    for (const auto& axes : meshes) {
      const auto errors =
          run_setups({.backend = kind.backend, .as = kind.as, .world = ranks_of(axes)}, [&](const BackendSetup& setup) {
            const Mesh mesh = mesh_of(kind.backend, axes, setup);
            for (const auto& [name, groups] : named_groups(axes))
              for (const auto& group : groups)
                if (std::count(group.begin(), group.end(), setup.rank))
                  require_members(mesh.axis(name), group, setup.rank);
          });
      for (const auto& error : errors) EXPECT_EQ(error, "") << kind.backend << ' ' << text_of(axes);
    }
}

TEST(MeshOfRanks, ReusesTheWorldGroupForAnAxisThatContainsAllRanks) {
  const auto errors = run_setups({.backend = "threads", .world = 2}, [](const BackendSetup& setup) {
    const auto world = make_process_group("threads", with_prefix("world", setup));
    const Mesh mesh({{"dp", 1}, {"tp", 2}}, world, "threads", with_prefix("mesh", setup));
    check(mesh.axis("tp").group == world && !mesh.axis("dp").group, "another group");
    check(Mesh("dp", world).axis("dp").rank == setup.rank, "another rank");
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(Mesh("dp", {}).axis("dp").size, 1);
  EXPECT_EQ(Mesh("dp", {}).axis("tp").size, 1) << "an axis that the mesh does not have";
}

TEST(Mesh, WithoutProcessGroupsHasTheSizesOfItsAxesAndOfTheirParts) {
  const Mesh mesh(MeshShape{{"dp", 2}, {.name = "shard", .size = 4, .part = 2}});
  EXPECT_EQ(mesh.axis("dp").size, 2);
  EXPECT_EQ(mesh.axis("shard").size, 4);
  EXPECT_EQ(mesh.axis("shard/2").size, 2);
  EXPECT_FALSE(mesh.group());
}

TEST(MeshOfRanks, IsRefusedOnAllRanksIfOneRankAsksForOtherAxes) {
  for (const Kind& kind : kinds) {
    const auto errors =
        run_setups({.backend = kind.backend, .as = kind.as, .world = 6}, [&](const BackendSetup& setup) {
          const MeshShape axes = {{"dp", 2}, {"tp", 3}}, turned = {{"tp", 3}, {"dp", 2}};
          mesh_of(kind.backend, setup.rank == 4 ? turned : axes, setup);
        });
    for (const auto& error : errors)
      EXPECT_TRUE(mentions_in_order(error, {"rank 0 dp=2,tp=3", "rank 4 tp=3,dp=2"})) << kind.backend;
  }
}

TEST(MeshOfRanks, IsRefusedForAWrongNumberOfRanksAnEmptyAxisOrADuplicateAxisName) {
  const auto refusal_of = [](const MeshShape& axes) {
    return run_setups({.backend = "threads", .world = 2},
                      [&](const BackendSetup& setup) { mesh_of("threads", axes, setup); })[0];
  };
  EXPECT_TRUE(mentions_in_order(refusal_of({{"dp", 2}, {"tp", 2}}), {"mesh dp=2,tp=2 ", "4 ranks", " 2"}));
  EXPECT_TRUE(mentions_in_order(refusal_of({{"dp", 0}}), {"mesh dp=0:", "axis dp", "no ranks"}));
  EXPECT_TRUE(mentions_in_order(refusal_of({{"dp", 1}, {"dp", 2}}), {"mesh dp=1,dp=2:", "two axes", "dp"}));
}

const MeshShape two_by_two = {{"dp", 2}, {"tp", 2}};

TEST(MeshGroups, NameADeadRankByItsGlobalNumber) {
  const auto errors = run_setups({.backend = "shm", .as = As::processes, .world = 4}, [](const BackendSetup& setup) {
    const Mesh mesh = mesh_of("shm", two_by_two, setup);
    if (setup.rank == 3) _exit(0);
    std::vector<at::Tensor> sum = {at::ones({4})};
    if (setup.rank == 1) mesh.axis("dp").group->allreduce(sum)->wait();
  });
  EXPECT_TRUE(says(errors[1], "rank 3 (pid ")) << errors[1];
  EXPECT_TRUE(says(errors[1], "while rank 1 (pid ")) << errors[1];
  EXPECT_EQ(errors[0] + errors[2], "") << "the other group is whole";
}

TEST(MeshGroups, NameRanksWithMismatchedCallsByGlobalNumber) {
  const auto errors = run_setups({.backend = "threads", .world = 4}, [](const BackendSetup& setup) {
    const Mesh mesh = mesh_of("threads", two_by_two, setup);
    std::vector<at::Tensor> sum = {at::ones({setup.rank == 3 ? 5 : 4})};
    if (setup.rank % 2 == 1) mesh.axis("dp").group->allreduce(sum)->wait();
  });
  for (const int rank : {1, 3}) {
    EXPECT_TRUE(says(errors[static_cast<size_t>(rank)], "rank 1 #")) << errors[static_cast<size_t>(rank)];
    EXPECT_TRUE(says(errors[static_cast<size_t>(rank)], "rank 3 #")) << errors[static_cast<size_t>(rank)];
  }
}

// Two hosts of two ranks: the axis tp stays within a host, the axis dp crosses them.
TEST(MeshGroups, AcrossHostsHaveTheRanksOfARowMajorGridAndNameThemByGlobalNumberInErrors) {
  const Team team{.backend = "shm", .as = As::processes, .world = 4, .per_host = 2};
  const auto errors = run_setups(team, [](const BackendSetup& setup) {
    const Mesh mesh = mesh_of("shm", two_by_two, setup);
    require_members(mesh.axis("tp"), {setup.rank / 2 * 2, setup.rank / 2 * 2 + 1}, setup.rank);
    require_members(mesh.axis("dp"), {setup.rank % 2, setup.rank % 2 + 2}, setup.rank);
    std::vector<at::Tensor> sum = {at::ones({setup.rank == 3 ? 5 : 4})};
    if (setup.rank % 2 == 1) mesh.axis("dp").group->allreduce(sum)->wait();
  });
  EXPECT_EQ(errors[0] + errors[2], "");
  EXPECT_TRUE(says(errors[1], "rank 1 #") && says(errors[1], "rank 3 #")) << errors[1];
}

TEST(MeshOfRanks, PassesEachOfItsProcessGroupsOnceToTheFunctionThatReplacesThem) {
  const auto errors = run_setups({.backend = "threads", .world = 4}, [](const BackendSetup& setup) {
    const auto world = make_process_group("threads", with_prefix("world", setup));
    const auto names_of = [&](const Mesh& mesh) {
      std::string names;
      const Mesh same = mesh.with_groups([&](const std::string& axis, const auto& group) {
        names += axis + std::to_string(group->getSize());
        return group;
      });
      check(same.group() == world && same.axis("dp").group == mesh.axis("dp").group, "another group");
      return names;
    };
    check(names_of(Mesh("dp", world)) == "dp4", "the only axis");
    check(names_of(Mesh(two_by_two, world, "threads", with_prefix("mesh", setup))) == "world4dp2tp2", "two axes");
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

}  // namespace
}  // namespace dpbench::testing
