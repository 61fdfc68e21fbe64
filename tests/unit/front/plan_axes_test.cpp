// Tests the plan (list of cases of a run): which combinations of world, batch, device and backend run, are skipped or
// are refused.
#include <set>

#include "tests/unit/front/plan_parts.h"

namespace dpbench {
namespace {

using namespace test;

void expect_only_note(const Plan& plan, const std::string& case_id, const std::vector<std::string>& parts) {
  ASSERT_EQ(plan.notes.size(), 1u);
  EXPECT_EQ(plan.notes.begin()->first, case_id);
  expect_contains(plan.notes.begin()->second, parts);
}

Selection launched(int world, int local) {
  Selection what = ddp_on_mlp();
  what.launched_by = "torchrun";
  what.launched_world = world;
  what.launched_local_world = local;
  return what;
}

TEST(Plan, UnderALauncherTheWorldIsTheNumberOfStartedRanks) {
  EXPECT_EQ(ids(make_plan(launched(3, 3), catalogue(), machine(8))),
            (Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32", "ddp/mnist-mlp/cpu:3/shm/weak/b64/f32"}));
  Selection what = launched(2, 2);
  what.cpus = {1, 2, 4};
  const Plan plan = make_plan(what, catalogue(), machine(8));
  EXPECT_EQ(ids(plan), (Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32", "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"}));
  ASSERT_EQ(plan.skipped.size(), 2u);
  expect_contains(plan.skipped[1].reason, {"torchrun", "2", "4"});
}

TEST(Plan, UnderALauncherRefusesAListOfWorldsWithoutTheNumberOfStartedRanks) {
  Selection what = launched(2, 2);
  what.cpus = {4};
  expect_contains(refusal<UsageError>(what, machine(8)), {"--cpus 4", "torchrun", "2 ranks"});
}

TEST(Plan, UnderALauncherAHostNeedsAGpuForEachOfItsRanks) {
  Selection what = launched(16, 8);
  what.gpus = {16};
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(8, 8))).back(), "ddp/mnist-mlp/cuda:16/nccl/weak/b64/f32");
  expect_contains(refusal<Unavailable>(what, machine(8, 4)), {"--gpus 16", "8", "4 GPUs"});
}

TEST(Plan, UnderALauncherRefusesSingleProcessStrategies) {
  Selection what = launched(2, 2);
  what.strategies = {"dp"};
  expect_contains(refusal<UsageError>(what, machine(8)), {"'dp'", "torchrun"});
}

TEST(Plan, RepeatedWorldsAndStrategiesAddNoCases) {
  Selection what = ddp_on_mlp();
  what.strategies = {"ddp", "ddp"};
  what.cpus = {2, 2, 1, 2};
  EXPECT_EQ(make_plan(what, catalogue(), machine(4)).cases.size(), 3u);
}

TEST(Plan, BatchIsPerDeviceInWeakAndGlobalInStrongScaling) {
  Selection what = ddp_on_mlp();
  what.cpus = {4};
  what.batches = {32};
  EXPECT_EQ(make_plan(what, catalogue(), machine(4)).cases.back().global_batch(), 128);
  what.scaling = Scaling::strong;
  const Plan strong = make_plan(what, catalogue(), machine(4));
  EXPECT_EQ(strong.cases.back().global_batch(), 32);
  EXPECT_EQ(strong.cases.front().global_batch(), 32);
}

TEST(Plan, RefusesABatchSmallerThanTheWorldOnlyForMultiProcessStrategies) {
  Selection what = ddp_on_mlp();
  what.scaling = Scaling::strong;
  what.batches = {3};
  what.cpus = {4};
  expect_contains(refusal<UsageError>(what, machine(2)), {"--batch 3", "world 4", "ddp", "--batch 4"});
  what.strategies = {"dp"};
  EXPECT_EQ(refusal<UsageError>(what, machine(2)), "accepted");
}

TEST(Plan, RefusesRatherThanSkipsAChosenBatchThatIsTooSmall) {
  Selection what;
  what.workloads = {"mnist-mlp"};
  what.scaling = Scaling::strong;
  what.batches = {3};
  what.cpus = {1, 4};
  expect_contains(refusal<UsageError>(what, machine(2)), {"--batch 3", "world 4"});
}

TEST(Plan, SkipsADefaultBatchThatIsTooSmallAndSuggestsOne) {
  Selection what;
  what.cpus = {64};
  const Plan plan = make_plan(what, catalogue(), machine(2));
  ASSERT_EQ(plan.skipped.size(), 1u);
  expect_contains(plan.skipped[0].reason, {"ddp", "random-linear", "--batch 64"});
  what.strategies = {"ddp"};
  what.workloads = {"random-linear"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"random-linear", "30", "64", "--batch 64"});
}

TEST(Plan, CheckSkipsNoCaseWithADefaultBatchSmallerThanTheWorld) {
  Selection what;
  what.cpus = {64};
  what.check = CheckSelection{};
  EXPECT_TRUE(make_plan(what, catalogue(), machine(2)).skipped.empty());
}

Catalogue with_samples() {
  Catalogue all = catalogue();
  all.workloads[0].samples = 100;
  all.workloads[1].samples = 60000;
  all.workloads[1].digits = true;
  return all;
}

TEST(Plan, RefusesAStepLargerThanTheDataOfANamedWorkload) {
  Selection what;
  what.workloads = {"mnist-mlp", "random-linear"};
  what.scaling = Scaling::strong;
  what.cpus = {2};
  what.batches = {100};
  EXPECT_EQ(refusal<UsageError>(what, machine(2), with_samples()), "accepted");
  what.batches = {64, 200};
  expect_contains(refusal<UsageError>(what, machine(2), with_samples()), {"200", "--batch", "random-linear", "100"});
  what.whole_epochs = true;
  EXPECT_EQ(refusal<UsageError>(what, machine(2), with_samples()), "accepted");
}

TEST(Plan, SkipsAStepLargerThanTheDataOfAnUnnamedWorkload) {
  Selection what;
  what.scaling = Scaling::strong;
  what.cpus = {2};
  what.batches = {200};
  const Plan plan = make_plan(what, with_samples(), machine(2));
  for (const auto& spec : plan.cases) EXPECT_EQ(spec.workload, "mnist-mlp") << spec.id;
  ASSERT_FALSE(plan.skipped.empty());
  for (const auto& [spec, reason] : plan.skipped) expect_contains(reason, {"random-linear", "100"});
}

TEST(Plan, SkipsOnlyWorldsThatNeedMoreSamplesThanTheDataHas) {
  Selection what = ddp_on_mlp();
  what.cpus = {2, 1024};
  const Plan plan = make_plan(what, with_samples(), machine(2));
  EXPECT_EQ(ids(plan), (Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32", "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"}));
  ASSERT_EQ(plan.skipped.size(), 1u);
  expect_contains(plan.skipped[0].reason, {"65536", "64", "1024 devices", "--batch", "mnist-mlp", "60000"});
  what.cpus = {1024};
  expect_contains(refusal<UsageError>(what, machine(2), with_samples()), {"mnist-mlp", "60000"});
}

TEST(Plan, NamesTheDataDirectoryThatHasTooFewSamples) {
  Selection what = ddp_on_mlp();
  what.cpus = {1};
  what.data_dir = "/three";
  Catalogue all = with_samples();
  all.workloads[1].samples = 3;
  expect_contains(refusal<UsageError>(what, machine(2), all), {"64", "--batch", "mnist-mlp", "--data /three", "3"});
}

TEST(Plan, AcceptsAnyBatchWhenTheNumberOfSamplesIsUnknown) {
  Selection what = ddp_on_mlp();
  what.batches = {1000000};
  EXPECT_EQ(refusal<UsageError>(what, machine(2)), "accepted");
  const Json workload = {{"name", "its-own"}, {"scaling", "weak"}, {"batch", 4}, {"samples", nullptr}};
  const Json none = Json::array(), one = Json::array({workload});
  const Json json = {
      {"torch", "2.11.0"}, {"strategies", none}, {"workloads", one}, {"backends", none}, {"not_built", none}};
  EXPECT_EQ(catalogue_from_json(json).workloads.at(0).samples, 0);
}

TEST(Plan, ABatchAboveTheNumberOfSamplesIsRefusedOnlyIfThatNumberIsKnownForTheScaleAndData) {
  Selection what;
  what.strategies = {"cpu"};
  what.batches = {100000};
  const auto judged = [&](const std::string& workload, int64_t scale, const std::string& data_dir, bool plugin) {
    Catalogue all = with_samples();
    for (auto& entry : all.workloads) entry.plugin = plugin;
    what.workloads = {workload};
    what.scale = scale;
    what.data_dir = data_dir;
    return refusal<UsageError>(what, machine(2), all) != "accepted";
  };
  for (const bool plugin : {false, true}) {
    SCOPED_TRACE(plugin ? "a plug-in's" : "built in");
    EXPECT_TRUE(judged("random-linear", 1, "", plugin));
    EXPECT_EQ(judged("random-linear", 2, "", plugin), !plugin);
    EXPECT_FALSE(judged("random-linear", 1, "/some", plugin)) << "the workload may read --data";
    EXPECT_TRUE(judged("mnist-mlp", 1, "/some", plugin)) << "the samples of the IDX files are known";
    EXPECT_EQ(judged("mnist-mlp", 2, "/some", plugin), !plugin);
  }
}

TEST(Plan, RefusesMoreMicroBatchesThanSamples) {
  Selection what = ddp_on_mlp();
  what.cpus = {1};
  what.batches = {4};
  what.accumulate = 5;
  expect_contains(refusal<UsageError>(what, machine(2)), {"--accumulate 5", "--batch"});
  what.accumulate = 4;
  EXPECT_EQ(refusal<UsageError>(what, machine(2)), "accepted");
}

TEST(Plan, RefusalForMissingGpusSuggestsCpusAndOversubscribe) {
  Selection what = ddp_on_mlp();
  what.gpus = {1, 2};
  expect_contains(refusal<Unavailable>(what, machine(2)), {"--gpus 1,2", "no driver", "--cpus 1,2"});
  expect_contains(refusal<Unavailable>(what, machine(2, 1)), {"--gpus 1,2", "1 GPU", "--cpus 1,2", "--oversubscribe"});
}

TEST(Plan, RanksThatShareAGpuUseABackendThatSupportsSharing) {
  Selection what = ddp_on_mlp();
  what.gpus = {1, 2};
  what.oversubscribe = true;
  const Plan plan = make_plan(what, catalogue(), machine(2, 1));
  EXPECT_EQ(ids(plan), (Ids{"gpu/mnist-mlp/cuda:1/weak/b64/f32", "ddp/mnist-mlp/cuda:1/nccl/weak/b64/f32",
                            "ddp/mnist-mlp/cuda:2/gloo/weak/b64/f32"}));
  EXPECT_FALSE(plan.cases[1].oversubscribe);
  EXPECT_TRUE(plan.cases[2].oversubscribe);
  expect_only_note(plan, "ddp/mnist-mlp/cuda:2/gloo/weak/b64/f32", {"gloo", "2 ranks", "1 GPU", "nccl"});
  what.backends = {"gloo"};
  EXPECT_TRUE(make_plan(what, catalogue(), machine(2, 1)).notes.empty()) << "a chosen backend needs no reason";
  what.backends = {"nccl"};
  what.gpus = {2};
  expect_contains(refusal<UsageError>(what, machine(2, 1)), {"nccl", "gloo"});
}

TEST(Plan, NotesWhyTheAutomaticBackendIsNotNccl) {
  Selection what = ddp_on_mlp();
  what.gpus = {4, 8};
  what.oversubscribe = true;
  expect_only_note(make_plan(what, catalogue(), machine(2, 4)), "ddp/mnist-mlp/cuda:8/gloo/weak/b64/f32",
                   {"gloo", "8 ranks", "4 GPUs", "nccl"});
  Selection across = launched(16, 8);
  across.gpus = {16};
  across.oversubscribe = true;
  expect_only_note(make_plan(across, catalogue(), machine(2, 4)), "ddp/mnist-mlp/cuda:16/gloo/weak/b64/f32",
                   {"gloo", "8 ranks", "4 GPUs", "nccl"});
}

TEST(Plan, CpuRanksUseShmUnlessSeveralHostsHaveOneRankEach) {
  struct Launch {
    int world, here, hosts;
    const char* backend;
  };
  // E.g. {4, 1, 2}: four ranks on two hosts, one rank on this host and three on the other host.
  for (const Launch& one :
       {Launch{4, 4, 1, "shm"}, {4, 2, 2, "shm"}, {1, 1, 1, "shm"}, {4, 1, 2, "shm"}, {4, 1, 4, "gloo"}}) {
    Selection what = launched(one.world, one.here);
    what.launched_hosts = one.hosts;
    EXPECT_EQ(make_plan(what, catalogue(), machine(2)).cases.back().backend, one.backend)
        << one.world << " ranks, " << one.here << " here, on " << one.hosts << " hosts";
  }
}

TEST(Plan, OneCpuRankPerHostUsesASharedMemoryBackendIfThereIsNoOther) {
  Catalogue without = catalogue();
  without.backends.erase(without.backends.begin());
  Selection what = launched(2, 1);
  what.launched_hosts = 2;
  EXPECT_EQ(make_plan(what, without, machine(2)).cases.back().backend, "shm");
}

TEST(Plan, MakesACaseForEachBackendThatTheUserNames) {
  Selection what = ddp_on_mlp();
  what.cpus = {2};
  what.backends = {"gloo", "shm"};
  EXPECT_EQ(ids(make_plan(what, catalogue(), machine(2))),
            (Ids{"cpu/mnist-mlp/cpu:1/weak/b64/f32", "ddp/mnist-mlp/cpu:2/gloo/weak/b64/f32",
                 "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32"}));
}

TEST(Plan, SkipsABackendThatDoesNotSupportTheDevice) {
  Selection what = ddp_on_mlp();
  what.cpus = {2};
  what.backends = {"nccl", "gloo"};
  const Plan plan = make_plan(what, catalogue(), machine(2));
  ASSERT_EQ(plan.skipped.size(), 1u);
  expect_contains(plan.skipped[0].reason, {"nccl", "cpu"});
  what.backends = {"nccl"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"nccl", "cpu"});
}

TEST(Plan, CutsDefaultWorldsToTheNumberOfGpus) {
  Selection what = ddp_on_mlp();
  what.default_worlds = {1, 2, 3, 6};
  const auto worlds = [&](size_t gpus) {
    std::vector<int> found;
    for (const CaseSpec& spec : make_plan(what, catalogue(), machine(2, gpus)).cases)
      if (spec.strategy == "ddp") found.push_back(spec.world);
    return found;
  };
  EXPECT_EQ(worlds(4), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(worlds(2), (std::vector<int>{1, 2})) << "each once";
  EXPECT_EQ(worlds(0), (std::vector<int>{1, 2, 3, 6})) << "CPUs are virtual";
}

TEST(Plan, RefusesTheBackendThreadsWhichIsForTestsOnly) {
  Selection what = ddp_on_mlp();
  what.backends = {"threads"};
  expect_contains(refusal<UsageError>(what, machine(2)), {"threads"});
}

TEST(Plan, CheckCommandUsesProbeModelsAndEverySupportedBackend) {
  Selection what;
  what.strategies = {"ddp"};
  what.default_worlds = {1, 3};
  what.check = CheckSelection{};
  what.baseline = false;
  const Plan plan = make_plan(what, catalogue(), machine(2));
  EXPECT_EQ(plan.cases.size(), 3u * 2u * 2u);
  for (const auto& spec : plan.cases) EXPECT_TRUE(spec.backend == "gloo" || spec.backend == "shm") << spec.id;
  EXPECT_EQ(plan.cases.back().workload, "probe");
}

TEST(Plan, WithoutAGivenMeshPutsAllRanksOnTheFirstAxisOfAStrategy) {
  Catalogue known = catalogue();
  StrategyEntry pipe = *find_entry(known.strategies, "ddp"), tensor = pipe;
  pipe.name = "pipe", pipe.axes = {"pp"};
  tensor.name = "tensor", tensor.axes = {"tp", "dp"};
  known.strategies.push_back(pipe);
  known.strategies.push_back(tensor);
  Selection what;
  what.strategies = {"pipe", "tensor", "ddp"};
  what.workloads = {"mnist-mlp"};
  what.cpus = {1, 2};
  what.baseline = false;
  std::map<std::string, std::string> meshes;
  for (const auto& spec : make_plan(what, known, machine(2)).cases)
    meshes[spec.strategy + std::to_string(spec.world)] = spec.mesh;
  EXPECT_EQ(meshes,
            (std::map<std::string, std::string>{
                {"pipe1", ""}, {"pipe2", "pp=2"}, {"tensor1", ""}, {"tensor2", "tp=2"}, {"ddp1", ""}, {"ddp2", ""}}));
}

TEST(Plan, ARunWithoutANamedStrategyLeavesOutWorkloadsWithSeveralModels) {
  Catalogue known = catalogue();
  known.workloads.push_back({.name = "transformer", .summary = "", .batch = 64, .models = {"small", "large"}});
  for (const bool fixed_models : {false, true}) {
    Selection what;
    what.fixed_models = fixed_models;
    std::set<std::string> names;
    for (const auto& spec : make_plan(what, known, machine(2)).cases) names.insert(spec.workload);
    EXPECT_EQ(names.contains("transformer"), !fixed_models);
    EXPECT_TRUE(names.contains("mnist-mlp"));
  }
}

TEST(Plan, RefusesAModelOfGptThatDoesNotExistBeforeAnythingRuns) {
  Catalogue known = catalogue();
  known.workloads.push_back({.name = "gpt", .summary = "", .batch = 4, .models = {"tiny"}});
  Selection what;
  for (const bool named : {false, true}) {
    if (named) what.workloads = {"gpt"};
    what.model = "nope";
    expect_contains(refusal<UsageError>(what, machine(2), known), {"--model nope", "tiny"});
    what.model = "tiny,layers=0";
    expect_contains(refusal<UsageError>(what, machine(2), known), {"--model tiny,layers=0", "layers"});
    what.model = "tiny,layers=3";
    EXPECT_EQ(refusal<UsageError>(what, machine(2), known), "accepted");
  }
}

TEST(Plan, ShortChecksUseOnlyOneBackendForWorldOneAndForProbesNotMarkedThorough) {
  Catalogue known = catalogue();
  known.workloads.push_back({"thorough-probe", "", Scaling::weak, 4, true, true});
  Selection what;
  what.strategies = {"ddp"};
  what.default_worlds = {1, 3};
  what.check = CheckSelection{};
  what.check->whole_worlds = 0;
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
  what.check->whole_worlds = 1;
  EXPECT_EQ(backends("probe", 1), (Names{"gloo", "shm"}));
  EXPECT_EQ(backends("probe", 3), Names{"shm"});
}

TEST(Plan, CheckThatDrawsCasesRunsEachRealWorkloadOnceAndAQuarterOfTheProbes) {
  Catalogue known = catalogue();
  known.workloads.back().thorough = true;
  for (const char* name : {"probe-2", "probe-3", "probe-4"})
    known.workloads.push_back({name, "", Scaling::weak, 4, true, true});
  Selection what;
  what.default_worlds = {1, 2, 3, 5};
  what.check = CheckSelection{.draws_worlds = true, .draws_cases = true};
  what.baseline = false;
  std::set<std::string> probes, backends;
  std::set<int> worlds;
  for (what.seed = 1; what.seed <= 100; ++what.seed) {
    std::vector<std::string> workloads;
    for (const auto& spec : make_plan(what, known, machine(8)).cases) {
      if (spec.strategy != "ddp") continue;
      workloads.push_back(spec.workload);
      worlds.insert(spec.world);
      backends.insert(spec.backend);
    }
    ASSERT_EQ(workloads.size(), 3u) << what.seed;
    EXPECT_EQ(workloads[0], "random-linear");
    EXPECT_EQ(workloads[1], "mnist-mlp");
    probes.insert(workloads[2]);
  }
  EXPECT_EQ(probes, (std::set<std::string>{"probe", "probe-2", "probe-3", "probe-4"}));
  EXPECT_EQ(worlds, (std::set<int>{1, 2, 3, 5}));
  EXPECT_EQ(backends, (std::set<std::string>{"gloo", "shm"}));
}

TEST(Plan, CpuRanksUseGlooIfTheShmBackendIsMissing) {
  Catalogue without = catalogue();
  without.backends.erase(without.backends.begin() + 1);
  Selection what = ddp_on_mlp();
  what.cpus = {2};
  EXPECT_EQ(make_plan(what, without, machine(2)).cases.back().backend, "gloo");
  without.backends.clear();
  expect_contains(refusal<Unavailable>(what, machine(2), without), {"backend", "cpu"});
}

}  // namespace
}  // namespace dpbench
