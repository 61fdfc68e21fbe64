// Placement: the rank, world and rendezvous address that a process reads from the environment variables of its launcher
// (torchrun, Slurm, MPI).
#include <gtest/gtest.h>

#include <map>

#include "harness/front/launch/outside/placement.h"
#include "harness/front/launch/outside/world.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Placement> placed(const Variables& variables, StartedBy launcher = StartedBy::automatic) {
  return find_placement(launcher, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

const Variables kTorchrun = {{"TORCHELASTIC_RUN_ID", "job"},
                             {"TORCHELASTIC_RESTART_COUNT", "1"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"GROUP_RANK", "1"},
                             {"MASTER_ADDR", "n1"},
                             {"MASTER_PORT", "29500"}};
const Variables kSlurm = {{"SLURM_JOB_ID", "7"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "2"},
                          {"SLURM_STEP_NUM_TASKS", "3"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                          {"SLURM_STEP_NODELIST", "n[3-4]"}};
const Variables kMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "123"}};

TEST(Placement, IsEmptyForAProcessStartedWithoutALauncher) {
  EXPECT_FALSE(placed({}));
  EXPECT_FALSE(placed({{"RANK", "0"}, {"WORLD_SIZE", "2"}})) << "RANK and WORLD_SIZE alone may be stale";
}

TEST(Placement, ReadsTorchrunVariablesAndTheStoreOfItsAgent) {
  const auto p = placed(kTorchrun).value();
  EXPECT_EQ(p.launcher, StartedBy::torchrun);
  EXPECT_EQ(p.rank, 3);
  EXPECT_EQ(p.world, 4);
  EXPECT_EQ(p.local_rank, 1);
  EXPECT_EQ(p.local_world, 2);
  EXPECT_EQ(p.master_addr, "n1");
  EXPECT_EQ(p.master_port, 29500);
  EXPECT_TRUE(p.store_is_served);
}

TEST(Placement, ATorchrunRestartChangesTheNonceOfTheRun) {
  Variables again = kTorchrun;
  again["TORCHELASTIC_RESTART_COUNT"] = "2";
  EXPECT_NE(placed(kTorchrun)->nonce, placed(again)->nonce);
}

TEST(Placement, ReadsSlurmVariablesOfHostsWithDifferentNumbersOfRanks) {
  const auto p = placed(kSlurm).value();
  EXPECT_EQ(p.launcher, StartedBy::slurm);
  EXPECT_EQ(p.rank, 2);
  EXPECT_EQ(p.local_world, 1);
  EXPECT_EQ(p.master_addr, "n3");
  EXPECT_FALSE(p.store_is_served);
}

TEST(Placement, IgnoresSlurmVariablesOutsideASlurmStep) {
  Variables batch = kSlurm;
  batch.erase("SLURM_STEP_ID");
  EXPECT_FALSE(placed(batch));
}

TEST(Placement, MpirunRanksShareARendezvousPortThatDiffersBetweenLaunches) {
  Variables other = kMpi;
  other["OMPI_COMM_WORLD_RANK"] = "0";
  EXPECT_EQ(placed(kMpi)->master_port, placed(other)->master_port);
  EXPECT_EQ(placed(kMpi)->master_addr, "127.0.0.1");
  other["PMIX_NAMESPACE"] = "124";
  EXPECT_NE(placed(kMpi)->master_port, placed(other)->master_port);
}

TEST(Placement, IsTakenFromTheInnermostOfNestedLaunchers) {
  Variables nested = kSlurm;
  nested.insert(kMpi.begin(), kMpi.end());
  EXPECT_EQ(placed(nested)->launcher, StartedBy::mpi);
  nested.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(placed(nested)->launcher, StartedBy::torchrun);
  EXPECT_EQ(placed(nested, StartedBy::slurm)->launcher, StartedBy::slurm);
  EXPECT_FALSE(placed(nested, StartedBy::self));
}

TEST(Placement, MpirunOnSeveralHostsNeedsMasterAddr) {
  Variables two = kMpi;
  two["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  two["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  EXPECT_THROW(placed(two), UsageError);
  two["MASTER_ADDR"] = "10.0.0.1";
  EXPECT_EQ(placed(two)->master_addr, "10.0.0.1");
}

TEST(Placement, RefusesInvalidRanksAndWorldSizes) {
  for (const char* wrong : {"", "4", "-1", "two", "1x"}) {
    Variables bad = kTorchrun;
    bad["RANK"] = wrong;
    EXPECT_THROW(placed(bad), UsageError) << wrong;
  }
  Variables bad = kTorchrun;
  bad["WORLD_SIZE"] = "1025";
  EXPECT_THROW(placed(bad), UsageError);
}

TEST(Placement, RefusesALauncherNameThatDiffersFromTheActualLauncher) {
  EXPECT_THROW(placed(kMpi, StartedBy::slurm), UsageError);
}

TEST(Placement, FindsTheFirstHostOfASlurmNodeList) {
  EXPECT_EQ(first_host("n1"), "n1");
  EXPECT_EQ(first_host("a,b[1-2]"), "a");
  EXPECT_EQ(first_host("gpu[003-004,9],x"), "gpu003");
  EXPECT_EQ(first_host("gpu[7,9]"), "gpu7");
  EXPECT_EQ(first_host(""), "");
}

// Returns "" if check_ranks_of_hosts() accepts ranks that have these nodes and local ranks, else its error message.
std::string complaint_about(const std::vector<std::pair<std::string, int>>& ranks) {
  std::vector<Json> hellos;
  for (const auto& [node, local_rank] : ranks)
    hellos.push_back({{"node", node}, {"local_rank", local_rank}, {"facts", {{"name", "name-of-" + node}}}});
  try {
    check_ranks_of_hosts(hellos);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Placement, AcceptsHostsWithDifferentNumbersOfConsecutiveRanks) {
  EXPECT_EQ(complaint_about({{"a", 0}, {"a", 1}, {"b", 0}, {"c", 0}, {"c", 1}}), "");
}

TEST(Placement, RefusesHostsWhoseRanksAreNotConsecutive) {
  const std::string cyclic = complaint_about({{"a", 0}, {"b", 0}, {"a", 1}, {"b", 1}});
  EXPECT_NE(cyclic.find("host name-of-a has the ranks 0, 2, as its local ranks 0, 1"), std::string::npos) << cyclic;
  EXPECT_NE(cyclic.find("--distribution=block"), std::string::npos) << cyclic;
}

TEST(Placement, RefusesLocalRanksThatDoNotCountFromZeroOnEachHost) {
  EXPECT_NE(complaint_about({{"a", 0}, {"a", 1}, {"b", 2}, {"b", 3}}), "");
  EXPECT_NE(complaint_about({{"a", 0}, {"a", 0}}), "");
  EXPECT_NE(complaint_about({{"a", 0}, {"b", 0}, {"a", 0}}), "");
  EXPECT_NE(complaint_about({{"a", 1}, {"a", 0}}), "");
}

}  // namespace
}  // namespace dpbench
