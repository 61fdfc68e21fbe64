// Which cases are run, which are not, and what is refused. No process, no device.
#include <algorithm>

#include <gtest/gtest.h>

#include <set>

#include "harness/front/plan.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

StrategyEntry strategy(const std::string& name, const std::string& parallelism, bool cpu, bool cuda) {
  return {.name = name,
          .summary = "",
          .parallelism = parallelism,
          .gradient = "",
          .buffers = "",
          .cpu = cpu,
          .cuda = cuda,
          .params = {}};
}

Catalogue catalogue() {
  Catalogue all;
  all.strategies = {strategy("cpu", "single", true, false), strategy("gpu", "single", false, true),
                    strategy("dp", "replicas", true, true), strategy("ddp", "ranks", true, true)};
  all.strategies[3].params = {{"bucket_mb", "25", ""}, {"overlap", "on", ""}};
  all.strategies[2].params = {{"overlap", "on", ""}};
  all.workloads = {
      {"random-linear", "", "strong", 30, false}, {"mnist-mlp", "", "weak", 64, false}, {"probe", "", "weak", 4, true}};
  all.backends = {{.name = "gloo", .summary = "", .cpu = true, .cuda = true},
                  {.name = "shm", .summary = "", .cpu = true, .cuda = false},
                  {.name = "nccl", .summary = "", .cpu = false, .cuda = true, .shares_device = false},
                  {.name = "threads", .summary = "", .cpu = true, .cuda = false, .threads = true}};
  all.not_built = {{"backend", "mpi", "no MPI was found"}};
  return all;
}

Machine machine(int cores, size_t gpus = 0) {
  return {.cores = cores, .cpus = {}, .gpus = std::vector<GpuState>(gpus), .no_gpu_reason = gpus ? "" : "no driver"};
}

Selection ddp_on_mlp() {
  Selection what;
  what.strategies = {"ddp"};
  what.workloads = {"mnist-mlp"};
  return what;
}

std::vector<std::string> ids(const Plan& plan) {
  std::vector<std::string> all;
  for (const auto& spec : plan.cases) all.push_back(spec.id);
  return all;
}

using Ids = std::vector<std::string>;

template <class Error>
std::string refusal(const Selection& what, const Machine& here, const Catalogue& all = catalogue()) {
  try {
    make_plan(what, all, here);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

void expect_says(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
}

TEST(Plan, NothingAskedForIsEverythingThatRunsHere) {
  Selection what;
  what.default_worlds = {1, 2};
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(2))),
            (Ids{"cpu/random-linear/cpu:1/strong/b30/f32", "dp/random-linear/cpu:1/strong/b30/f32",
                 "dp/random-linear/cpu:2/strong/b30/f32", "ddp/random-linear/cpu:1/shm/strong/b30/f32",
                 "ddp/random-linear/cpu:2/shm/strong/b30/f32", "cpu/mnist-mlp/cpu:1/weak/b64/f32",
                 "dp/mnist-mlp/cpu:1/weak/b64/f32", "dp/mnist-mlp/cpu:2/weak/b64/f32",
                 "ddp/mnist-mlp/cpu:1/shm/weak/b64/f32", "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"}));
}

TEST(Plan, WithGpusNothingAskedForMeansThem) {
  Selection what;
  what.default_worlds = {1, 2};
  what.workloads = {"mnist-mlp"};
  EXPECT_EQ(
      ids(make_plan(what, catalogue(), machine(8, 4))),
      (Ids{"gpu/mnist-mlp/cuda:1/weak/b64/f32", "dp/mnist-mlp/cuda:1/weak/b64/f32", "dp/mnist-mlp/cuda:2/weak/b64/f32",
           "ddp/mnist-mlp/cuda:1/nccl/weak/b64/f32", "ddp/mnist-mlp/cuda:2/nccl/weak/b64/f32"}));
  EXPECT_EQ(make_plan(what, catalogue(), machine(8, 1)).cases.back().world, 1);
  what.default_worlds.clear();
  EXPECT_EQ(make_plan(what, catalogue(), machine(8, 4)).cases.back().world, 4);
}

TEST(Plan, TheBaselineComesFirstOfEachWorkloadOnce) {
  Selection what = ddp_on_mlp();
  what.strategies = {"ddp", "cpu"};
  what.cpus = {2};
  const Plan plan = make_plan(what, catalogue(), machine(4));
  EXPECT_EQ(ids(plan), (Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32", "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"}));
  EXPECT_TRUE(plan.cases[0].baseline);
  EXPECT_FALSE(plan.cases[1].baseline);
}

TEST(Plan, NoBaselineOmitsTheAddedRowOnly) {
  Selection what = ddp_on_mlp();
  what.cpus = {2};
  what.baseline = false;
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(4))), Ids{"ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"});
  what.strategies = {"cpu"};
  EXPECT_EQ(make_plan(what, catalogue(), machine(4)).cases.size(), 1u);
}

TEST(Plan, ThreadsAreCoresOverTheLargestWorldInEveryRow) {
  Selection what;
  what.cpus = {1, 2, 3};
  for (const auto& spec : make_plan(what, catalogue(), machine(8)).cases) EXPECT_EQ(spec.threads, 2) << spec.id;
  EXPECT_EQ(make_plan(what, catalogue(), machine(2)).threads, 1);
  what.filter = "cpu:[12]";
  EXPECT_EQ(make_plan(what, catalogue(), machine(8)).threads, 4);
  what.threads = 5;
  EXPECT_EQ(make_plan(what, catalogue(), machine(8)).threads, 5);
}

TEST(Plan, OnlyRanksHaveProcessesAndABackend) {
  Selection what;
  what.workloads = {"mnist-mlp"};
  what.cpus = {3};
  for (const auto& spec : make_plan(what, catalogue(), machine(4)).cases) {
    EXPECT_EQ(spec.processes, spec.strategy == "ddp" ? 3 : 1) << spec.id;
    EXPECT_EQ(spec.backend, spec.strategy == "ddp" ? "shm" : "none") << spec.id;
    EXPECT_EQ(spec.world, spec.strategy == "cpu" ? 1 : 3) << spec.id;
  }
}

Selection launched(int world, int local) {
  Selection what = ddp_on_mlp();
  what.launched_by = "torchrun";
  what.launched_world = world;
  what.launched_local_world = local;
  return what;
}

TEST(Plan, UnderALauncherTheWorldIsTheOneThatWasStarted) {
  EXPECT_EQ(ids(make_plan(launched(3, 3), catalogue(), machine(8))),
            (Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32", "ddp/mnist-mlp/cpu:3/shm/weak/b64/f32"}));
  Selection what = launched(2, 2);
  what.cpus = {1, 2, 4};
  const Plan plan = make_plan(what, catalogue(), machine(8));
  EXPECT_EQ(ids(plan), (Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32", "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"}));
  ASSERT_EQ(plan.skipped.size(), 2u);
  EXPECT_EQ(plan.skipped[1].reason, "torchrun started 2 ranks, and a world of 4 needs 4");
}

TEST(Plan, UnderALauncherAnotherWorldIsRefusedWithBothNumbers) {
  Selection what = launched(2, 2);
  what.cpus = {4};
  const std::string why = refusal<UsageError>(what, machine(8));
  EXPECT_NE(why.find("--cpus 4"), std::string::npos) << why;
  EXPECT_NE(why.find("torchrun started 2 ranks"), std::string::npos) << why;
}

TEST(Plan, UnderALauncherGpusAreCountedOnThisHost) {
  Selection what = launched(16, 8);
  what.gpus = {16};
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(8, 8))).back(), "ddp/mnist-mlp/cuda:16/nccl/weak/b64/f32");
  EXPECT_NE(refusal<Unavailable>(what, machine(8, 4)), "");
}

TEST(Plan, UnderALauncherOneProcessWithReplicasHasNoPlace) {
  Selection what = launched(2, 2);
  what.strategies = {"dp"};
  EXPECT_NE(refusal<UsageError>(what, machine(8)).find("one process"), std::string::npos);
}

TEST(Plan, RepeatedWorldsAndNamesCollapse) {
  Selection what = ddp_on_mlp();
  what.strategies = {"ddp", "ddp"};
  what.cpus = {2, 2, 1, 2};
  EXPECT_EQ(make_plan(what, catalogue(), machine(4)).cases.size(), 3u);
}

TEST(Plan, WeakCountsRowsPerDeviceAndStrongRowsInAll) {
  Selection what = ddp_on_mlp();
  what.cpus = {4};
  what.batches = {32};
  EXPECT_EQ(make_plan(what, catalogue(), machine(4)).cases.back().global_batch(), 128);
  what.scaling = "strong";
  const Plan strong = make_plan(what, catalogue(), machine(4));
  EXPECT_EQ(strong.cases.back().global_batch(), 32);
  EXPECT_EQ(strong.cases.front().global_batch(), 32);
}

TEST(Plan, ABatchSmallerThanTheWorldIsRefusedUnderRanksOnly) {
  Selection what = ddp_on_mlp();
  what.scaling = "strong";
  what.batches = {3};
  what.cpus = {4};
  expect_says(refusal<UsageError>(what, machine(2)), {"--batch 3", "world 4", "ddp", "--batch 4"});
  what.strategies = {"dp"};
  EXPECT_EQ(refusal<UsageError>(what, machine(2)), "accepted");
}

TEST(Plan, ABatchThatWasChosenIsNeverSkippedInSilence) {
  Selection what;
  what.workloads = {"mnist-mlp"};
  what.scaling = "strong";
  what.batches = {3};
  what.cpus = {1, 4};
  expect_says(refusal<UsageError>(what, machine(2)), {"--batch 3", "world 4"});
}

TEST(Plan, AWorkloadsOwnBatchThatIsTooSmallIsSkippedWithTheWayOn) {
  Selection what;
  what.cpus = {64};
  const Plan plan = make_plan(what, catalogue(), machine(2));
  ASSERT_EQ(plan.skipped.size(), 1u);
  expect_says(plan.skipped[0].reason, {"ddp on random-linear", "--batch 64"});
  what.strategies = {"ddp"};
  what.workloads = {"random-linear"};
  expect_says(refusal<UsageError>(what, machine(2)), {"--batch 64"});
}

TEST(Plan, WhatChoosesItsOwnRowsIsNotSkippedForABatch) {
  Selection what;
  what.cpus = {64};
  what.own_rows = true;
  EXPECT_TRUE(make_plan(what, catalogue(), machine(2)).skipped.empty());
}

TEST(Plan, MicroBatchesNeedRows) {
  Selection what = ddp_on_mlp();
  what.cpus = {1};
  what.batches = {4};
  what.accumulate = 5;
  expect_says(refusal<UsageError>(what, machine(2)), {"--accumulate 5", "--batch"});
  what.accumulate = 4;
  EXPECT_EQ(refusal<UsageError>(what, machine(2)), "accepted");
}

TEST(Plan, GpusThatAreNotHereNameTheWaysOn) {
  Selection what = ddp_on_mlp();
  what.gpus = {1, 2};
  expect_says(refusal<Unavailable>(what, machine(2)), {"--gpus 2", "no GPU", "no driver", "--cpus 2"});
  expect_says(refusal<Unavailable>(what, machine(2, 1)), {"--gpus 2", "1 GPU", "--cpus 2", "--oversubscribe"});
}

TEST(Plan, OversubscribedGpusGoOverABackendThatSharesThem) {
  Selection what = ddp_on_mlp();
  what.gpus = {1, 2};
  what.oversubscribe = true;
  const Plan plan = make_plan(what, catalogue(), machine(2, 1));
  EXPECT_EQ(ids(plan), (Ids{"gpu/mnist-mlp/cuda:1/weak/b64/f32", "ddp/mnist-mlp/cuda:1/nccl/weak/b64/f32",
                            "ddp/mnist-mlp/cuda:2/gloo/weak/b64/f32"}));
  EXPECT_FALSE(plan.cases[1].oversubscribe);
  EXPECT_TRUE(plan.cases[2].oversubscribe);
  what.backends = {"nccl"};
  what.gpus = {2};
  expect_says(refusal<UsageError>(what, machine(2, 1)), {"nccl", "share", "gloo"});
}

TEST(Plan, CpuRanksTakeSharedMemoryOnSeveralHostsToo) {
  Selection what = ddp_on_mlp();
  what.launched_world = 4;
  for (const int here : {4, 2}) {
    what.launched_local_world = here;
    EXPECT_EQ(make_plan(what, catalogue(), machine(2)).cases.back().id, "ddp/mnist-mlp/cpu:4/shm/weak/b64/f32");
  }
}

TEST(Plan, ABackendIsAnAxis) {
  Selection what = ddp_on_mlp();
  what.cpus = {2};
  what.backends = {"gloo", "shm"};
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(2))),
            (Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32", "ddp/mnist-mlp/cpu:2/gloo/weak/b64/f32",
                 "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"}));
}

TEST(Plan, ABackendForOtherTensorsIsSkippedWithTheReason) {
  Selection what = ddp_on_mlp();
  what.cpus = {2};
  what.backends = {"nccl", "gloo"};
  const Plan plan = make_plan(what, catalogue(), machine(2));
  ASSERT_EQ(plan.skipped.size(), 1u);
  expect_says(plan.skipped[0].reason, {"nccl", "cpu"});
  what.backends = {"nccl"};
  expect_says(refusal<UsageError>(what, machine(2)), {"nccl", "cpu"});
}

TEST(Plan, ABackendOfThreadsIsNotForRuns) {
  Selection what = ddp_on_mlp();
  what.backends = {"threads"};
  expect_says(refusal<UsageError>(what, machine(2)), {"threads", "tests"});
}

TEST(Plan, CheckingTakesProbesAndEveryBackendThatFits) {
  Selection what;
  what.strategies = {"ddp"};
  what.default_worlds = {1, 3};
  what.probes = what.every_backend = true;
  what.baseline = false;
  const Plan plan = make_plan(what, catalogue(), machine(2));
  EXPECT_EQ(plan.cases.size(), 3u * 2u * 2u);
  for (const auto& spec : plan.cases) EXPECT_TRUE(spec.backend == "gloo" || spec.backend == "shm") << spec.id;
  EXPECT_EQ(plan.cases.back().workload, "probe");
}

TEST(Plan, SparingLeavesTheOtherBackendsToWhatCanTellThemApart) {
  Catalogue known = catalogue();
  known.workloads.push_back({"thorough-probe", "", "weak", 4, true, true});
  Selection what;
  what.strategies = {"ddp"};
  what.default_worlds = {1, 3};
  what.probes = what.every_backend = true;
  what.whole_worlds = 0;
  what.baseline = false;
  const auto backends = [&](const std::string& workload, int world) {
    std::set<std::string> names;
    for (const auto& spec : make_plan(what, known, machine(2)).cases)
      if (spec.workload == workload && spec.world == world) names.insert(spec.backend);
    return names;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(backends("mnist-mlp", 3), (Names{"gloo", "shm"}));
  EXPECT_EQ(backends("thorough-probe", 3), (Names{"gloo", "shm"}));
  EXPECT_EQ(backends("probe", 3), Names{"shm"});
  for (const char* workload : {"mnist-mlp", "thorough-probe", "probe"}) EXPECT_EQ(backends(workload, 1), Names{"shm"});
  what.whole_worlds = 1;
  EXPECT_EQ(backends("probe", 1), (Names{"gloo", "shm"}));
  EXPECT_EQ(backends("probe", 3), Names{"shm"});
}

TEST(Plan, WithoutSharedMemoryCpuRanksGoOverGloo) {
  Catalogue without = catalogue();
  without.backends.erase(without.backends.begin() + 1);
  Selection what = ddp_on_mlp();
  what.cpus = {2};
  EXPECT_EQ(make_plan(what, without, machine(2)).cases.back().backend, "gloo");
  without.backends.clear();
  expect_says(refusal<Unavailable>(what, machine(2), without), {"no backend", "cpu"});
}

TEST(Plan, UnknownNamesGetTheNearestOne) {
  Selection what;
  what.strategies = {"ddpp"};
  expect_says(refusal<UsageError>(what, machine(2)), {"strategy", "ddpp", "'ddp'", "cpu, gpu, dp, ddp"});
  what = {};
  what.workloads = {"mnist_mlp"};
  expect_says(refusal<UsageError>(what, machine(2)), {"workload", "'mnist-mlp'"});
  what = {};
  what.backends = {"glo"};
  expect_says(refusal<UsageError>(what, machine(2)), {"backend", "'gloo'"});
}

TEST(Plan, WhatThisBuildLacksIsUnavailableWithItsReason) {
  Selection what;
  what.backends = {"mpi"};
  expect_says(refusal<Unavailable>(what, machine(2)), {"mpi", "no MPI was found"});
}

TEST(Plan, ANamedStrategyWithoutItsDeviceIsSkippedAndSaid) {
  Selection what;
  what.strategies = {"cpu", "gpu"};
  what.workloads = {"mnist-mlp"};
  what.cpus = {1};
  const Plan plan = make_plan(what, catalogue(), machine(2));
  EXPECT_EQ(ids(plan), Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32"});
  ASSERT_EQ(plan.skipped.size(), 1u);
  expect_says(plan.skipped[0].reason, {"'gpu'", "no driver"});
  what.strategies = {"gpu"};
  expect_says(refusal<Unavailable>(what, machine(2)), {"'gpu'", "none"});
}

TEST(Plan, ANamedSingleStrategyKeepsItsOwnDeviceBesideGpus) {
  Selection what;
  what.strategies = {"cpu", "gpu", "ddp"};
  what.workloads = {"mnist-mlp"};
  what.gpus = {2};
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(8, 2))),
            (Ids{"gpu/mnist-mlp/cuda:1/weak/b64/f32", "cpu/mnist-mlp/cpu:1/weak/b64/f32",
                 "ddp/mnist-mlp/cuda:2/nccl/weak/b64/f32"}));
}

TEST(Plan, ParametersMultiplyAndDefaultsLeaveNoTrace) {
  Selection what = ddp_on_mlp();
  what.cpus = {1};
  what.baseline = false;
  what.params = {"ddp.bucket_mb=1,25", "overlap=on,off"};
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(2))),
            (Ids{"ddp/mnist-mlp/cpu:1/shm/weak/b64/f32/bucket_mb=1",
                 "ddp/mnist-mlp/cpu:1/shm/weak/b64/f32/bucket_mb=1/overlap=off", "ddp/mnist-mlp/cpu:1/shm/weak/b64/f32",
                 "ddp/mnist-mlp/cpu:1/shm/weak/b64/f32/overlap=off"}));
  what.strategies = {"dp", "ddp"};
  what.params = {"ddp.overlap=off"};
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(2))).front(), "dp/mnist-mlp/cpu:1/weak/b64/f32");
}

TEST(Plan, TheBaselineWithAParameterIsHeldAgainstTheBaseline) {
  Catalogue all = catalogue();
  all.strategies[1].params = {{"graph", "off", ""}};
  Selection what;
  what.strategies = {"gpu"};
  what.workloads = {"mnist-mlp"};
  what.params = {"gpu.graph=off,on"};
  const Plan plan = make_plan(what, all, machine(2, 1));
  ASSERT_EQ(plan.cases.size(), 2u);
  EXPECT_TRUE(plan.cases[0].params.empty() && plan.cases[0].baseline) << plan.cases[0].id;
  EXPECT_TRUE(!plan.cases[1].params.empty() && !plan.cases[1].baseline) << plan.cases[1].id;
}

TEST(Plan, UnknownParametersAreRefused) {
  Selection what = ddp_on_mlp();
  what.params = {"ddp.buckt_mb=1"};
  expect_says(refusal<UsageError>(what, machine(2)), {"buckt_mb", "'bucket_mb'"});
  what.params = {"dp.overlap=on"};
  expect_says(refusal<UsageError>(what, machine(2)), {"'dp'", "chosen: ddp"});
  for (const std::string text : {"bucket_mb", "=1", "bucket_mb=", "bucket_mb=1,,2", "bucket_mb=1,", "bucket_mb=a b"}) {
    what.params = {text};
    EXPECT_NE(refusal<UsageError>(what, machine(2)), "accepted") << text;
  }
}

TEST(Plan, AFilterKeepsMatchesAndTheirBaselines) {
  Selection what;
  what.cpus = {1, 2};
  what.filter = "^ddp/mnist.*cpu:2";
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(2))),
            (Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32", "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"}));
  what.filter = "no such case";
  expect_says(refusal<UsageError>(what, machine(2)), {"nothing matched", "no such case"});
}

TEST(Plan, ProbesRunOnlyWhenNamed) {
  Selection what;
  what.cpus = {1};
  for (const auto& spec : make_plan(what, catalogue(), machine(2)).cases) EXPECT_NE(spec.workload, "probe");
  what.workloads = {"probe"};
  EXPECT_EQ(make_plan(what, catalogue(), machine(2)).cases[0].workload, "probe");
}

TEST(Plan, TooManyCasesAreRefused) {
  Selection what = ddp_on_mlp();
  for (int world = 1; world <= kMaxWorld; ++world) what.cpus.push_back(world);
  what.batches = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  expect_says(refusal<UsageError>(what, machine(2)), {"10000"});
}

}  // namespace
}  // namespace dpbench
