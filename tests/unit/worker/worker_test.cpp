// Parts of the worker (the process that runs a rank) that need no other process: step batches, environment variables,
// FLOP counts and fingerprints.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "harness/worker/catalogue_json.h"
#include "harness/worker/measure/profile_case.h"
#include "harness/worker/parameters_json.h"
#include "harness/worker/rank/cuda.h"
#include "harness/worker/rank/variables.h"
#include "harness/worker/steps/step_source.h"
#include "harness/worker/steps/tensor_checks.h"
#include "strategies/api/backend.h"
#include "strategies/parts/flop_count.h"
#include "tests/support/contains.h"
#include "tests/support/cpu_recorder.h"

namespace dpbench {
namespace {

std::vector<int64_t> ids_of(const at::Tensor& ids) {
  return {ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>() + ids.numel()};
}

std::unique_ptr<Workload> linear() { return workload_registry().at("random-linear").make({}); }

const StrategyInfo single{.name = "one", .summary = "", .parallelism = Parallelism::single};
const StrategyInfo ranks{.name = "ranks", .summary = "", .parallelism = Parallelism::ranks};
const StrategyInfo replicas{
    .name = "replicas", .summary = "", .parallelism = Parallelism::replicas, .loads_samples = true};

CaseSpec strong(int world, int64_t batch) {
  CaseSpec spec;
  spec.workload = "random-linear";
  spec.scaling = Scaling::strong;
  spec.world = world;
  spec.batch = batch;
  return spec;
}

TEST(NonFiniteValues, AreReportedWithTheNameOfTheFirstTensorThatContainsOne) {
  const at::Tensor good = at::ones({2, 3}), nan = good.clone(), infinite = at::zeros({4}, at::kBFloat16);
  nan[1][0] = std::nan("");
  infinite[2] = -std::numeric_limits<double>::infinity();
  const NamedTensors finite = {
      {"a", good}, {"none", at::Tensor()}, {"empty", at::zeros({0})}, {"count", at::ones({2}, at::kLong)}};
  EXPECT_EQ(first_not_finite(finite), std::nullopt);
  NamedTensors some = finite;
  some.insert(some.end(), {{"b", nan}, {"c", infinite}});
  expect_contains(first_not_finite(some).value(), {"b", "nan", "[1, 0]"});
  expect_contains(first_not_finite({{"c", infinite}}).value(), {"c", "-inf", "[2]"});
  expect_contains(first_not_finite({{"t", nan.t()}}).value(), {"t", "nan", "[0, 1]"});
}

TEST(StepSource, SplitsTheEpochIntoBatches) {
  const auto workload = linear();
  StepSource source(*workload, strong(1, 30), single, 0);
  ASSERT_EQ(source.steps_per_epoch(), 4);
  std::vector<int64_t> samples;
  for (int64_t step = 0; step < 4; ++step) samples.push_back(source.at(step)[0].samples());
  EXPECT_EQ(samples, (std::vector<int64_t>{30, 30, 30, 10}));
  EXPECT_EQ(source.samples(2, 3), 30 + 10 + 30);
}

TEST(StepSource, AssignsEachSampleOfAStepToOneRank) {
  const auto workload = linear();
  StepSource whole(*workload, strong(1, 30), single, 0);
  for (int64_t step = 0; step < 4; ++step) {
    const auto all = ids_of(whole.at(step)[0].ids);
    std::multiset<int64_t> assigned;
    std::vector<size_t> counts;
    for (int rank = 0; rank < 4; ++rank) {
      StepSource source(*workload, strong(4, 30), ranks, rank);
      const auto ids = ids_of(source.at(step)[0].ids);
      counts.push_back(ids.size());
      assigned.insert(ids.begin(), ids.end());
    }
    EXPECT_EQ(assigned, std::multiset<int64_t>(all.begin(), all.end()));
    EXPECT_EQ(counts, step < 3 ? (std::vector<size_t>{8, 8, 7, 7}) : (std::vector<size_t>{3, 3, 2, 2}));
  }
}

// On a GPU, a replay of a recorded step (a CUDA graph) calls no collectives. The CPU stand-in for the recorder calls
// them on every replay, so the profile must leave them out.
TEST(Profile, OfRecordedStepsHasTheGraphPhaseAndNoCollectives) {
  const CpuRecorders recorders;
  const StrategyInfo& ddp = strategy_registry().at("ddp");
  const auto workload = linear();
  CaseSpec spec = strong(1, 30);
  spec.strategy = "ddp";
  spec.params = {{"graph", "on"}};
  StepSource source(*workload, spec, ddp, 0);
  Variables variables;
  variables.backend = "none";
  const Group group(variables);
  Pulse pulse("", 0);
  const auto alone = make_process_group(
      "threads", {.store = c10::make_intrusive<c10d::HashStore>(), .device = at::kCPU, .directory = {}});
  RankRecord record;
  record.steps_per_sample = 4;
  const dpbench::Setup setup{.workload = *workload,
                             .devices = {at::kCPU},
                             .mesh = Mesh("dp", alone),
                             .params = Params(ddp.params, spec.params, "ddp"),
                             .clip_norm = {}};
  profile_case(spec, setup, source, Sampling{}, group, pulse, record);
  EXPECT_TRUE(record.phases_ns.contains("graph"));
  EXPECT_FALSE(record.phases_ns.contains("backward"));
  ASSERT_TRUE(record.profile);
  EXPECT_EQ(record.profile->collectives_per_step, 0);
  EXPECT_TRUE(record.profile->collectives.empty());
  EXPECT_TRUE(record.profile->strategy_figures.empty());
}

TEST(StepSource, SplitsAStepIntoMicroBatches) {
  const auto workload = linear();
  CaseSpec spec = strong(2, 30);
  spec.accumulate = 3;
  StepSource source(*workload, spec, ranks, 1);
  ASSERT_EQ(source.at(0).size(), 3U);
  EXPECT_EQ(source.at(0)[0].samples(), 5);
}

TEST(StepSource, GivesEveryRankTheRequestedNumberOfMicroBatchesIfSamplesDoNotDivide) {
  const auto workload = linear();
  CaseSpec spec = strong(2, 17);
  spec.accumulate = 4;
  for (const int rank : {0, 1}) EXPECT_EQ(StepSource(*workload, spec, ranks, rank).at(0).size(), 4U) << rank;
}

TEST(StepSource, DropsTheShortLastBatchInWeakScaling) {
  const auto workload = linear();
  CaseSpec spec = strong(2, 15);
  spec.scaling = Scaling::weak;
  StepSource source(*workload, spec, replicas, 0);
  EXPECT_EQ(source.steps_per_epoch(), 3);
  EXPECT_EQ(source.at(3)[0].samples(), 30);
}

TEST(StepSource, GivesOnlySampleIdsToStrategiesThatLoadSamplesThemselves) {
  const auto workload = workload_registry().at("mnist-mlp").make({});
  CaseSpec spec = strong(2, 64);
  spec.workload = "mnist-mlp";
  StepSource whole(*workload, spec, single, 0), alone(*workload, spec, replicas, 0);
  EXPECT_TRUE(whole.at(1)[0].input.defined());
  EXPECT_FALSE(alone.at(1)[0].input.defined());
  EXPECT_EQ(ids_of(alone.at(1)[0].ids), ids_of(whole.at(1)[0].ids));
}

// The "meta" device stands in for a GPU.
TEST(StepSource, ASmallEpochIsOnTheDeviceUnlessOneProcessRunsAllReplicas) {
  const auto workload = linear();
  for (const StrategyInfo& strategy : {single, ranks}) {
    StepSource source(*workload, strong(1, 30), strategy, 0, at::kMeta);
    for (const int64_t step : {0, 3, 4}) {
      const Batch& batch = source.at(step)[0];
      EXPECT_TRUE(batch.input.is_meta() && batch.target.is_meta() && batch.ids.is_meta())
          << strategy.name << ", step " << step;
      EXPECT_EQ(batch.samples(), step == 3 ? 10 : 30);
    }
  }
  StepSource shared(*workload, strong(2, 30), replicas, 0, at::kMeta);
  EXPECT_TRUE(shared.at(0)[0].input.is_cpu());
}

TEST(StepSource, KeepsALargeEpochOnTheHost) {
  const auto workload = workload_registry().at("mnist-mlp").make({});
  CaseSpec spec = strong(1, 64);
  spec.workload = "mnist-mlp";
  StepSource source(*workload, spec, single, 0, at::kMeta);
  EXPECT_TRUE(source.at(1)[0].input.is_cpu());
}

TEST(StepSource, RefusesABatchAboveTheSamplesOfAnEpochOrBelowTheRanks) {
  const auto workload = linear();
  EXPECT_THROW(StepSource(*workload, strong(1, 101), single, 0), UsageError);
  EXPECT_THROW(StepSource(*workload, strong(8, 7), ranks, 0), UsageError);
}

class WorkerVariables : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [name, value] :
         {std::pair{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"DPBENCH_FD", "5"}, {"DPBENCH_RUN_DIR", "/nowhere"}})
      setenv(name, value, 1);
  }
  void TearDown() override {
    for (const char* name : {"RANK", "WORLD_SIZE", "DPBENCH_FD", "DPBENCH_RUN_DIR"}) unsetenv(name);
  }
  std::string complaint(const char* name, const char* value) {
    setenv(name, value, 1);
    try {
      read_variables();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(WorkerVariables, AreReadFromTheEnvironment) {
  const Variables v = read_variables();
  EXPECT_EQ(v.rank, 1);
  EXPECT_EQ(v.local_rank, 1);
  EXPECT_EQ(v.world, 2);
  EXPECT_EQ(v.channel, 5);
}

TEST_F(WorkerVariables, TheVariableDpbenchSettingsOverridesThoseForOlderBuilds) {
  setenv("DPBENCH_THREADS", "3", 1);
  EXPECT_EQ(read_variables().threads, 3);
  EXPECT_EQ(read_variables().runtime, Runtime::fast);
  const ProcessSettings settings{.backend = "shm", .processes = 2, .threads = 4};
  setenv("DPBENCH_SETTINGS", to_json(settings).dump().c_str(), 1);
  const Variables v = read_variables();
  expect_contains(complaint("DPBENCH_SETTINGS", "{}"), {"DPBENCH_SETTINGS.device"});
  for (const char* name : {"DPBENCH_SETTINGS", "DPBENCH_THREADS"}) unsetenv(name);
  EXPECT_TRUE(static_cast<const ProcessSettings&>(v) == settings);
}

TEST_F(WorkerVariables, InvalidValueIsReportedWithTheNameOfTheVariable) {
  expect_contains(complaint("RANK", "2"), {"RANK='2'", "0 to 1"});
  expect_contains(complaint("RANK", "-1"), {"RANK='-1'", "0 to 1"});
  expect_contains(complaint("WORLD_SIZE", "two"), {"WORLD_SIZE='two'", "1 to 1024"});
}

int64_t flop_of_a_step(const std::string& workload_name, int64_t samples, const char* onednn = "off",
                       const std::string& model = {}) {
  const auto workload = workload_registry().at(workload_name).make({.model = model});
  const StrategyInfo& cpu = strategy_registry().at("cpu");
  const auto strategy = cpu.make({.workload = *workload,
                                  .devices = {at::kCPU},
                                  .params = Params(cpu.params, {{"onednn", onednn}}, "cpu"),
                                  .clip_norm = {}});
  const Batch batch = workload->batch(at::arange(samples));
  Phases phases;
  const FlopCount count;
  strategy->step(0, {&batch, 1}, phases);
  return count.flop();
}

// The forward pass multiplies 784 -> 128 -> 10 features. The backward pass computes both weight gradients and the
// gradient of the hidden layer.
TEST(FlopCount, OfTheMlpIsTheSumOfItsFiveMatrixProducts) {
  for (const char* onednn : {"off", "on"})
    EXPECT_EQ(flop_of_a_step("mnist-mlp", 64, onednn), 2 * 64 * (2 * (784 * 128 + 128 * 10) + 128 * 10)) << onednn;
}

TEST(FlopCount, OfASingleLayerExcludesTheInputGradient) {
  EXPECT_EQ(flop_of_a_step("random-linear", 30), 2 * 30 * (5 * 2) * 2);
}

// Each product below is output positions x weights of a layer: 28x28 x 9*1*12, then 12x12 x 36*12*24 (no padding: (28 -
// 6) / 2 + 1), then 6x6 x 36*24*32 (padding "same"). Only the first layer needs no input gradient; the dense layers 32
// -> 256 -> 10 do.
TEST(FlopCount, OfTheConvnetCountsTheWeightsAtEveryOutputPosition) {
  const int64_t first = 28 * 28 * 9 * 12, second = 12 * 12 * 36 * 12 * 24, third = 6 * 6 * 36 * 24 * 32,
                dense = 32 * 256 + 256 * 10;
  EXPECT_EQ(flop_of_a_step("convnet", 16), 2 * 16 * (2 * first + 3 * (second + third + dense)));
}

// There are 2 samples of 3 heads, with 5 queries and 7 keys and values of size 4.
TEST(FlopCount, OfAttentionIsTwoProductsForwardAndFiveBackward) {
  const auto of_size = [](int64_t tokens) { return at::rand({2, 3, tokens, 4}).requires_grad_(); };
  const at::Tensor query = of_size(5), key = of_size(7), value = of_size(7);
  const int64_t product = 2 * (2 * 3) * (5 * 7) * 4;
  const FlopCount count;
  const at::Tensor output = at::scaled_dot_product_attention(query, key, value);
  EXPECT_EQ(count.flop(), 2 * product);
  output.sum().backward();
  EXPECT_EQ(count.flop(), (2 + 5) * product);
}

// The backward pass computes the attention scores a second time: 2 x hidden x tokens^2 operations per layer and sample.
// The closed formula does not count this second computation.
TEST(FlopCount, OfAGptIsItsFormulaPlusTheScoresThatTheBackwardPassRecomputes) {
  const auto& gpt = workload_registry().at("gpt");
  for (const auto& [model, scores] : {std::pair{"tiny", 2 * 2 * 18 * 11 * 11}, {"tiny-llama", 2 * 2 * 36 * 13 * 13}}) {
    const double formula = gpt.make({.model = model})->flop_per_sample();
    EXPECT_EQ(static_cast<double>(flop_of_a_step("gpt", 3, "off", model)), 3 * (formula + scores)) << model;
  }
}

TEST(FlopCount, OfThisThreadExcludesTheProductsOfOtherThreads) {
  const auto product = [] { return at::mm(at::ones({2, 3}), at::ones({3, 4})); };
  const FlopCount all, mine(FlopCount::Of::this_thread);
  product();
  std::thread([&] { product(); }).join();
  EXPECT_EQ(mine.flop(), 2 * 2 * 3 * 4);
  EXPECT_EQ(all.flop(), 2 * mine.flop());
}

TEST(Catalogue, MarksWorkloadsThatReadDataFiles) {
  const Json known = catalogue();
  std::vector<std::string> readers;
  for (const auto& workload : known.at("workloads"))
    if (workload.at("digits")) readers.push_back(workload.at("name"));
  std::sort(readers.begin(), readers.end());
  EXPECT_EQ(readers, (std::vector<std::string>{"convnet", "mnist-mlp"}));
}

TEST(Catalogue, GivesTheNumberOfSamplesOfEveryWorkload) {
  for (const auto& workload : catalogue().at("workloads")) {
    const std::string name = workload.at("name");
    for (const int64_t scale : {1, 2})
      EXPECT_EQ(workload.at("samples"), workload_registry().at(name).make({.scale = scale})->samples()) << name;
    EXPECT_EQ(workload.at("plugin"), false) << name;
  }
}

TEST(Catalogue, MarksWorkloadsOfPlugins) {
  const size_t all = workload_registry().all().size();
  const Json known = catalogue(false, all - 1).at("workloads");
  ASSERT_EQ(known.size(), all);
  for (size_t i = 0; i < all; ++i) EXPECT_EQ(known[i].at("plugin"), i == all - 1) << known[i].at("name");
}

TEST(Refusals, NameParameterValuesThatContradictEachOtherOrADefault) {
  const auto choice = [](const std::string& strategy, const ParamValues& params) {
    return Json({{"strategy", strategy}, {"params", params}}).dump();
  };
  const Json reasons =
      refusals({choice("ddp", {{"join", "on"}}), choice("ddp", {{"join", "on"}, {"static_graph", "on"}}),
                choice("ddp", {{"skip_unused", "on"}}), choice("ddp", {{"skip_unused", "on"}, {"find_unused", "on"}}),
                choice("pp", {{"schedule", "zbv"}, {"stages", "3"}}), choice("pp", {{"blocks", "junk"}})});
  ASSERT_EQ(reasons.size(), 6u);
  EXPECT_TRUE(reasons[0].is_null()) << reasons[0];
  expect_contains(reasons[1].get<std::string>(), {"ddp.join=on and ddp.static_graph=on"});
  expect_contains(reasons[2].get<std::string>(), {"ddp.skip_unused=on and ddp.find_unused=off"});
  EXPECT_TRUE(reasons[3].is_null()) << reasons[3];
  expect_contains(reasons[4].get<std::string>(), {"pp.stages=3"});
  expect_contains(reasons[5].get<std::string>(), {"pp.blocks=junk", "2+3+1"});
}

// Returns why a strategy refuses a workload's model in a world of 2; empty if it accepts the model.
std::string refusal_of_model(const std::string& strategy, const ParamValues& params, const std::string& workload,
                             const std::string& mesh = "", const std::string& model = "") {
  const Json reasons = refusals({Json({{"strategy", strategy},
                                       {"params", params},
                                       {"workload", workload},
                                       {"model", model},
                                       {"scale", 1},
                                       {"data_dir", ""},
                                       {"mesh", mesh},
                                       {"world", 2}})
                                     .dump()});
  return reasons.at(0).is_null() ? "" : reasons.at(0).get<std::string>();
}

TEST(Refusals, NameParameterValuesThatDoNotSuitTheModelBeforeAnyRankStarts) {
  const std::string tiny = "tiny,layers=1";
  expect_contains(refusal_of_model("cp", {}, "mnist-mlp", "cp=2"), {"cp", "no sequence"});
  expect_contains(refusal_of_model("cp", {{"kind", "ulysses"}}, "gpt", "cp=2", tiny + ",heads=1"), {"kind=ring"});
  expect_contains(refusal_of_model("ep", {}, "gpt", "ep=2", tiny), {"no experts"});
  expect_contains(refusal_of_model("ddp", {{"ignore", "nope"}}, "mnist-mlp"), {"ddp.ignore=nope", "weight"});
  expect_contains(refusal_of_model("pp", {{"blocks", "90+1"}}, "gpt", "pp=2", tiny), {"91 blocks in 2 stages"});
  expect_contains(refusal_of_model("pp", {}, "mnist-mlp", "pp=64"), {"too few for the 64 ranks"});
  expect_contains(refusal_of_model("fsdp", {{"reshard", "3"}}, "mnist-mlp", "shard=4"), {"does not divide"});
  EXPECT_EQ(refusal_of_model("cp", {}, "gpt", "cp=2", tiny), "");
  EXPECT_EQ(refusal_of_model("pp", {}, "gpt", "pp=2", tiny), "");
  EXPECT_EQ(refusal_of_model("fsdp", {{"reshard", "2"}}, "mnist-mlp", "shard=4"), "");
  EXPECT_EQ(refusal_of_model("ddp", {{"bucket_mb", "1"}}, "mnist-mlp"), "");
}

// Returns the row of a parameter in the parameter table of a workload's model.
Json row_of(const std::string& name, const std::string& workload, const std::string& model = "") {
  for (const Json& row : parameters_json(workload, model))
    if (row.at("name") == name) return row;
  return nullptr;
}

TEST(ParameterTable, ListsSizesAndAllBlocksOfATiedParameter) {
  EXPECT_EQ(parameters_json("gpt", "tiny").size(), 36U);
  EXPECT_EQ(row_of("model.embed_tokens.weight", "gpt", "tiny"), Json({{"name", "model.embed_tokens.weight"},
                                                                      {"sizes", {257, 18}},
                                                                      {"blocks", {"model.embed_tokens", "lm_head"}},
                                                                      {"unit", "root"},
                                                                      {"tp", "cut in dimension 0"},
                                                                      {"ep", nullptr}}));
}

TEST(ParameterTable, NamesTheUnitOfFsdp) {
  EXPECT_EQ(row_of("model.layers.1.mlp.down_proj.bias", "gpt", "tiny").at("unit"), "model.layers.1");
  EXPECT_EQ(row_of("lm_head.weight", "gpt", "tiny,tied=off").at("unit"), "lm_head");
  EXPECT_EQ(row_of("weight", "probe-exact").at("unit"), "model") << "a model without blocks";
}

TEST(ParameterTable, ShowsWhetherAParameterIsCutUnderTensorAndExpertParallelism) {
  const std::string layer = "model.layers.1.";
  EXPECT_EQ(row_of(layer + "mlp.down_proj.weight", "gpt", "tiny").at("tp"), "cut in dimension 1");
  EXPECT_EQ(row_of(layer + "mlp.down_proj.bias", "gpt", "tiny").at("tp"), "whole");
  EXPECT_EQ(row_of(layer + "self_attn.k_proj.weight", "gpt", "tiny-llama,kv_heads=1").at("tp"),
            "whole, gradients summed");
  EXPECT_EQ(row_of("n.1.weight", "mnist-mlp").at("tp"), "cut in dimension 0");
  EXPECT_TRUE(row_of("n.1.weight", "mnist-mlp").at("ep").is_null());
  const Json expert = row_of(layer + "mlp.experts.up_proj.weight", "gpt", "tiny-experts");
  EXPECT_TRUE(expert.at("tp").is_null());
  EXPECT_EQ(expert.at("ep"), "cut in dimension 0");
  EXPECT_EQ(row_of(layer + "mlp.router.weight", "gpt", "tiny-experts").at("ep"), "whole");
}

// The loaded libraries must have the CUDA major version and the NCCL major and minor version with which LibTorch was
// built, because LibTorch requires these.
TEST(Cuda, LoadedCudaAndNcclHaveTheVersionsOfTheBuild) {
  const Json built = catalogue();  // catalogue() also loads the CUDA and NCCL libraries, if there are any
  const auto loaded = loaded_versions();
  if (!built.at("not_built").empty()) GTEST_SKIP() << built.at("not_built").dump();
  EXPECT_EQ(loaded.at("cuda_loaded").substr(0, 3), built.at("cuda").get<std::string>().substr(0, 3));
  EXPECT_EQ(loaded.at("nccl_loaded").substr(0, 4), built.at("nccl").get<std::string>().substr(0, 4));
}

// The fake NVML library also has the symbols of NCCL and CUDA, which are found unless real libraries are loaded.
// LibTorch may have loaded the real CUDA runtime.
TEST(Cuda, VersionsAndBusNumbersComeFromTheLoadedLibraries) {
  const auto real = loaded_versions();
  if (real.contains("nccl_loaded")) GTEST_SKIP() << "a real NCCL is loaded";
  EXPECT_TRUE(pci_buses({4711}).empty()) << "there is no such GPU";
  void* fake = dlopen(DPBENCH_FAKE_NVML, RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(fake, nullptr) << dlerror();
  EXPECT_EQ(loaded_versions().at("nccl_loaded"), "2.28.9");
  if (!real.contains("cuda_loaded")) {
    EXPECT_EQ(loaded_versions().at("cuda_loaded"), "13.1");
    EXPECT_EQ(pci_buses({2, 4711}), (std::vector<std::string>{"0000:1d:00.0"})) << "a missing GPU is left out";
  }
  dlclose(fake);
}

TEST(Fingerprint, OfTensorsChangesWithOneBitOrAnotherName) {
  at::Tensor a = at::ones({3, 5}), b = a.clone();
  EXPECT_EQ(fingerprint({{"a", a}}), fingerprint({{"a", b}}));
  b.view(-1)[14] = std::nextafter(1.0F, 2.0F);
  EXPECT_NE(fingerprint({{"a", a}}), fingerprint({{"a", b}}));
  EXPECT_NE(fingerprint({{"a", a}}), fingerprint({{"b", a}}));
}

}  // namespace
}  // namespace dpbench
