// The plan (list of cases of a run) for a selection: cases that run, cases that are skipped, and refused selections.
#include <map>
#include <string>

#include "tests/support/contains.h"
#include "tests/unit/front/plan_parts.h"

namespace dpbench {
namespace {

using namespace test;

TEST(Plan, WithoutGpusAnEmptySelectionRunsEveryWorkloadExceptProbesOnCpus) {
  Selection what;
  what.default_worlds = {1, 2};
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(2))),
            (Ids{"cpu/random-linear/cpu:1/strong/b30/f32", "dp/random-linear/cpu:1/strong/b30/f32",
                 "dp/random-linear/cpu:2/strong/b30/f32", "ddp/random-linear/cpu:1/shm/strong/b30/f32",
                 "ddp/random-linear/cpu:2/shm/strong/b30/f32", "cpu/mnist-mlp/cpu:1/weak/b64/f32",
                 "dp/mnist-mlp/cpu:1/weak/b64/f32", "dp/mnist-mlp/cpu:2/weak/b64/f32",
                 "ddp/mnist-mlp/cpu:1/shm/weak/b64/f32", "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"}));
}

TEST(Plan, WithoutADeviceFlagARunUsesTheGpusOfTheMachine) {
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

TEST(Plan, TheBaselineCaseComesFirstAndOnlyOnce) {
  Selection what = ddp_on_mlp();
  what.strategies = {"ddp", "cpu"};
  what.cpus = {2};
  const Plan plan = make_plan(what, catalogue(), machine(4));
  EXPECT_EQ(ids(plan), (Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32", "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"}));
  EXPECT_TRUE(plan.cases[0].baseline);
  EXPECT_FALSE(plan.cases[1].baseline);
}

TEST(Plan, TheBaselineStrategyRunsIfNamedEvenWithTheFlagNoBaseline) {
  Selection what = ddp_on_mlp();
  what.cpus = {2};
  what.baseline = false;
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(4))), Ids{"ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"});
  what.strategies = {"cpu"};
  EXPECT_EQ(make_plan(what, catalogue(), machine(4)).cases.size(), 1u);
}

TEST(Plan, ThreadsOfEveryCaseAreTheCoresDividedByTheLargestWorld) {
  Selection what;
  what.cpus = {1, 2, 3};
  for (const auto& spec : make_plan(what, catalogue(), machine(8)).cases) EXPECT_EQ(spec.threads, 2) << spec.id;
  EXPECT_EQ(make_plan(what, catalogue(), machine(2)).threads, 1);
  what.filter = "cpu:[12]";
  EXPECT_EQ(make_plan(what, catalogue(), machine(8)).threads, 4);
  what.threads = 5;
  EXPECT_EQ(make_plan(what, catalogue(), machine(8)).threads, 5);
}

TEST(Plan, OnlyMultiProcessStrategiesHaveABackendAndAProcessPerReplica) {
  Selection what;
  what.workloads = {"mnist-mlp"};
  what.cpus = {3};
  for (const auto& spec : make_plan(what, catalogue(), machine(4)).cases) {
    EXPECT_EQ(spec.processes, spec.strategy == "ddp" ? 3 : 1) << spec.id;
    EXPECT_EQ(spec.backend, spec.strategy == "ddp" ? "shm" : "none") << spec.id;
    EXPECT_EQ(spec.world, spec.strategy == "cpu" ? 1 : 3) << spec.id;
  }
}

TEST(Plan, AutomaticBackendIsTheMostPreferredOneThatCanConnectTheRanks) {
  Catalogue all = catalogue();
  all.backends.push_back({.name = "own", .summary = "", .cuda = true, .cpu_preference = 30, .cuda_preference = 15});
  // Returns the backend that `auto` stands for, followed in parentheses by the note that explains the choice, if any.
  const auto auto_backend = [&](int cpus, int gpus, size_t gpus_here, int hosts = 1) {
    Selection what = ddp_on_mlp();
    if (cpus > 0) what.cpus = {cpus};
    if (gpus > 0) what.gpus = {gpus};
    what.oversubscribe = true;
    if (hosts > 1) what.launched_world = hosts, what.launched_local_world = 1, what.launched_hosts = hosts;
    const Plan plan = make_plan(what, all, machine(4, gpus_here));
    const auto note = plan.notes.find(plan.cases.back().id);
    return plan.cases.back().backend + (note == plan.notes.end() ? "" : " (" + note->second + ")");
  };
  EXPECT_EQ(auto_backend(2, 0, 0), "own");
  EXPECT_EQ(auto_backend(0, 2, 2), "nccl");
  expect_contains(auto_backend(0, 2, 1), {"own (", "2 ranks", "1 GPU", "nccl"});
  all.backends.back().cuda_preference = 25;
  EXPECT_EQ(auto_backend(0, 2, 1), "own") << "the most preferred backend needs no note";
  all.backends.back().shares_memory = true;
  EXPECT_EQ(auto_backend(2, 0, 0, 2), "gloo") << "every host has one rank";
  all.backends.back().cpu_preference = 0;
  EXPECT_EQ(auto_backend(2, 0, 0), "shm");
}

TEST(Plan, ANoteNamesAStrategyOrBackendThatHasNotPassedItsChecksOnGpus) {
  Catalogue all = catalogue();
  all.backends[2].unproven_on_gpu = true;
  all.strategies[2].unproven_on_gpu = true;
  Selection what;
  what.workloads = {"mnist-mlp"};
  what.gpus = {1, 2};
  const Plan plan = make_plan(what, all, machine(4, 2));
  std::map<std::string, std::string> notes;
  for (const auto& spec : plan.cases)
    if (plan.notes.contains(spec.id)) notes[spec.strategy + " " + std::to_string(spec.world)] = plan.notes.at(spec.id);
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_TRUE(mentions_in_order(notes["dp 1"], {"dp ", "checks", "GPUs"}));
  EXPECT_EQ(notes["dp 2"], notes["dp 1"]);
  EXPECT_TRUE(mentions_in_order(notes["ddp 2"], {"nccl ", "checks", "GPUs"}));
  what.gpus = {};
  what.cpus = {2};
  EXPECT_TRUE(make_plan(what, all, machine(4)).notes.empty());
}

TEST(Plan, ANoteNamesTheUnusualDeclarationsOfAStrategy) {
  Catalogue all = catalogue();
  all.strategies[3].declares = {{"repeatable", "no", ""}, {"reduced_in", "-", ""}, {"traffic", "yes", ""}};
  Selection what = ddp_on_mlp();
  what.cpus = {2};
  const Plan plan = make_plan(what, all, machine(4));
  EXPECT_EQ(plan.notes.at(plan.cases.back().id), "declares repeatable=no");
}

TEST(Plan, SuggestsTheNearestKnownName) {
  Selection what;
  what.strategies = {"ddpp"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"strategy", "ddpp", "'ddp'", "cpu, gpu, dp, ddp"});
  what = {};
  what.workloads = {"mnist_mlp"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"workload", "'mnist-mlp'"});
  what = {};
  what.backends = {"glo"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"backend", "'gloo'"});
  what = {};
  what.strategies = {"DDP"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"'DDP'", "'ddp'", "cpu, gpu, dp, ddp, all"});
}

TEST(Plan, RefusalOfANameListsValidNamesAndUnbuiltBackendsButNoProbeModels) {
  Selection what;
  what.workloads = {"MNIST"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"'MNIST'", "'mnist-mlp'", "random-linear, mnist-mlp, all"});
  EXPECT_EQ(refusal<UsageError>(what, machine(2)).find("probe"), std::string::npos);
  what.workloads = {"prob"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"'probe'"});
  what.workloads = {"al"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"'all'"});
  what = {};
  what.backends = {"MPI"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"'MPI'", "'mpi'", "gloo, shm, nccl, mpi, auto"});
  EXPECT_EQ(refusal<UsageError>(what, machine(2)).find("threads"), std::string::npos);
}

TEST(Plan, ABackendNotInThisBuildIsUnavailableWithItsReason) {
  Selection what;
  what.backends = {"mpi"};
  expect_contains(refusal<Unavailable>(what, machine(2)), {"backend 'mpi'", "no MPI was found"});
  Catalogue all = catalogue();
  all.cuda = "13.0";
  all.not_built = {{"backend", "mpi", "its library cannot be loaded: libx.so.1: no such file"}};
  expect_contains(refusal<Unavailable>(what, machine(2), all),
                  {"backend 'mpi'", "its library cannot be loaded: libx.so.1: no such file"});
}

TEST(Plan, SkipsANamedStrategyIfTheMachineLacksItsDevice) {
  Selection what;
  what.strategies = {"cpu", "gpu"};
  what.workloads = {"mnist-mlp"};
  what.cpus = {1};
  const Plan plan = make_plan(what, catalogue(), machine(2));
  EXPECT_EQ(ids(plan), Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32"});
  ASSERT_EQ(plan.skipped.size(), 1u);
  expect_contains(plan.skipped[0].reason, {"'gpu'", "no driver"});
  what.strategies = {"gpu"};
  expect_contains(refusal<Unavailable>(what, machine(2)), {"'gpu'", "no driver", "--strategy cpu --cpus 1"});
}

TEST(Plan, TheStrategyCpuStaysOnTheCpuWhenGpusAreSelected) {
  Selection what;
  what.strategies = {"cpu", "gpu", "ddp"};
  what.workloads = {"mnist-mlp"};
  what.gpus = {2};
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(8, 2))),
            (Ids{"gpu/mnist-mlp/cuda:1/weak/b64/f32", "cpu/mnist-mlp/cpu:1/weak/b64/f32",
                 "ddp/mnist-mlp/cuda:2/nccl/weak/b64/f32"}));
}

TEST(Plan, EveryCombinationOfParametersGivesACaseAndIdsOmitDefaults) {
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

TEST(Plan, ACaseOfTheBaselineStrategyWithANonDefaultParameterIsNotUsedAsBaseline) {
  Catalogue all = catalogue();
  all.strategies[1].params = {{"graph", "off", "", ""}};
  Selection what;
  what.strategies = {"gpu"};
  what.workloads = {"mnist-mlp"};
  what.params = {"gpu.graph=off,on"};
  const Plan plan = make_plan(what, all, machine(2, 1));
  ASSERT_EQ(plan.cases.size(), 2u);
  EXPECT_TRUE(plan.cases[0].params.empty() && plan.cases[0].baseline) << plan.cases[0].id;
  EXPECT_TRUE(!plan.cases[1].params.empty() && !plan.cases[1].baseline) << plan.cases[1].id;
}

TEST(Plan, RefusesUnknownAndMalformedParameters) {
  Selection what = ddp_on_mlp();
  what.params = {"ddp.buckt_mb=1"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"buckt_mb", "'bucket_mb'"});
  what.strategies = {"dp", "ddp"};
  what.params = {"bucket=1"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"'bucket'", "'bucket_mb'", "overlap, bucket_mb"});
  what.strategies = {"ddp"};
  what.params = {"dp.overlap=on"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"'dp'", "ddp"});
  for (const std::string text : {"bucket_mb", "=1", "bucket_mb=", "bucket_mb=1,,2", "bucket_mb=1,", "bucket_mb=a b"}) {
    what.params = {text};
    EXPECT_NE(refusal<UsageError>(what, machine(2)), "accepted") << text;
  }
}

TEST(Plan, RefusesParameterValuesOutsideTheDeclaredOnes) {
  Selection what = ddp_on_mlp();
  for (const std::string value : {"x", "1x", "1 MB"}) {
    what.params = {"bucket_mb=1," + value};
    expect_contains(refusal<UsageError>(what, machine(2)), {"bucket_mb", value});
  }
  what.params = {"overlap=maybe"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"ddp.overlap=maybe", "on|off"});
  for (const std::string text : {"bucket_mb=0.5", "overlap=off", "overlap=true"}) {
    what.params = {text};
    EXPECT_EQ(make_plan(what, catalogue(), machine(2)).cases.size(), 3u) << text;
  }
}

TEST(Plan, AcceptsWordsAndNumbersForAParameterThatDeclaresBoth) {
  Catalogue all = catalogue();
  all.strategies[3].params.push_back({"keep", "on", "", "on|off|integer from 2"});
  Selection what = ddp_on_mlp();
  what.params = {"keep=off,2"};
  EXPECT_EQ(make_plan(what, all, machine(2)).cases.size(), 5u);
  for (const std::string value : {"2x", "1", "integer"}) {
    what.params = {"keep=" + value};
    expect_contains(refusal<UsageError>(what, machine(2), all), {"ddp.keep=" + value, "on|off|integer from 2"});
  }
}

TEST(Plan, RefusesNumbersOfAnotherKindThanDeclaredOrBelowTheDeclaredLimit) {
  Catalogue all = catalogue();
  all.strategies[3].params = {
      {"size", "25", "", "number above 0"}, {"count", "1", "", "integer from 1"}, {"free", "1", "", "number"}};
  Selection what = ddp_on_mlp();
  for (const std::string text : {"size=0.5", "count=1", "count=7", "free=-3"}) {
    what.params = {text};
    EXPECT_EQ(refusal<UsageError>(what, machine(2), all), "accepted") << text;
  }
  for (const std::string text : {"size=0", "size=-1", "size=nan", "size=inf", "count=0", "count=1.5", "free=inf"}) {
    what.params = {text};
    expect_contains(refusal<UsageError>(what, machine(2), all), {"--param ddp." + text, "not a valid"});
  }
}

TEST(Plan, AddsACaseOfTheReferenceStrategyInEveryWorldOfTheOtherStrategies) {
  Selection what;
  what.strategies = {"dp"};
  what.workloads = {"mnist-mlp"};
  what.cpus = {1, 2};
  what.reference.strategy = "ddp";
  const auto planned = ids(make_plan(what, catalogue(), machine(2)));
  for (const std::string id : {"ddp/mnist-mlp/cpu:1/shm/weak/b64/f32", "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"})
    EXPECT_EQ(std::count(planned.begin(), planned.end(), id), 1) << id;
  what.reference.strategy = "dpp";
  expect_contains(refusal<UsageError>(what, machine(2)), {"dpp"});
}

TEST(Plan, EachRuntimeGetsItsOwnCasesAndBaseline) {
  Selection what = ddp_on_mlp();
  const size_t one = make_plan(what, catalogue(), machine(2)).cases.size();
  what.runtimes = {Runtime::torch, Runtime::fast};
  const auto planned = ids(make_plan(what, catalogue(), machine(2)));
  EXPECT_EQ(planned.size(), 2 * one);
  EXPECT_EQ(std::count(planned.begin(), planned.end(), "cpu/mnist-mlp/cpu:1/weak/b64/f32/fast"), 1);
}

TEST(Plan, AFilterKeepsMatchingCasesAndTheirBaselines) {
  Selection what;
  what.cpus = {1, 2};
  what.filter = "^ddp/mnist.*cpu:2";
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(2))),
            (Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32", "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"}));
  what.filter = "no such case";
  expect_contains(refusal<UsageError>(what, machine(2)), {"--filter", "no such case"});
}

TEST(Plan, ProbeModelsRunOnlyWhenNamed) {
  Selection what;
  what.cpus = {1};
  for (const auto& spec : make_plan(what, catalogue(), machine(2)).cases) EXPECT_NE(spec.workload, "probe");
  what.workloads = {"probe"};
  EXPECT_EQ(make_plan(what, catalogue(), machine(2)).cases[0].workload, "probe");
}

TEST(Plan, RefusesMoreThan10000Cases) {
  Selection what = ddp_on_mlp();
  for (int world = 1; world <= max_world; ++world) what.cpus.push_back(world);
  what.batches = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  expect_contains(refusal<UsageError>(what, machine(2)), {"10000"});
}

TEST(Plan, AStrategyForCpusOnlyIsSkippedOnGpus) {
  Catalogue all = catalogue();
  all.strategies.push_back(strategy("tree", Parallelism::ranks, true, false));
  Selection what = ddp_on_mlp();
  what.strategies = {"tree", "ddp"};
  what.gpus = {2};
  const Plan plan = make_plan(what, all, machine(4, 2));
  ASSERT_EQ(plan.skipped.size(), 1u);
  EXPECT_TRUE(mentions_in_order(plan.skipped[0].reason, {"'tree'", "CPUs", "--cpus 2"}));
  for (const auto& spec : plan.cases) EXPECT_NE(spec.strategy, "tree");
}

}  // namespace
}  // namespace dpbench
