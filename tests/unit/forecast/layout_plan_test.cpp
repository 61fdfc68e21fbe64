// Tests plans of layouts: speed of a device, links, cuts of a pipeline and predicted steps, compared with figures
// computed by hand.
#include "harness/forecast/plan/layout_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/forecast/exposed_communication.h"
#include "harness/forecast/plan/case_memory.h"
#include "harness/forecast/plan/group_link.h"
#include "harness/forecast/plan/layout_map.h"
#include "harness/forecast/plan/words.h"
#include "harness/forecast/project/step_model.h"
#include "harness/report/figures/summarise.h"
#include "harness/report/record/find_run.h"
#include "harness/report/validate/schema.h"
#include "tests/support/contains.h"
#include "tests/support/sample_reports.h"
#include "workloads/base/error.h"

namespace dpbench::forecast {
namespace {

constexpr double rate = 1e12;
const gpt::Shape small = gpt::parse_shape("layers=8,hidden=64,heads=4,seq=32,vocab=512");

PlanRequest request_for(int devices, double memory_bytes = 0) {
  PlanRequest asked{.model = "layers=8,hidden=64,heads=4,seq=32,vocab=512", .shape = small};
  asked.devices = devices, asked.batch = 16, asked.memory_bytes = memory_bytes, asked.gpus = true;
  asked.machine.speed = constant_speed(rate, "a test");
  asked.machine.network = {{100e9, 1e-6}, {10e9, 5e-6}, 0};
  return asked;
}

Layout layout_on(const MeshShape& mesh, int64_t micro_batches) {
  Layout layout{.strategy = "layout", .mesh = mesh, .micro_batches = micro_batches};
  layout.rows = 16 / layout.size("dp") / micro_batches;
  if (layout.size("pp") > 1) layout.schedule = pipeline::find_family("1f1b");
  if (layout.size("pp") > 1) layout.stage_sizes = spread_blocks(small, layout);
  return layout;
}

// Returns the bytes of all parameters of a model in float32.
double bytes_of(const gpt::Shape& shape) {
  const auto count = [&](gpt::Part part) { return static_cast<double>(gpt::parameters(shape, part, {})); };
  return 4 * (count(gpt::Part::embed) + static_cast<double>(shape.layers) * count(gpt::Part::layer) +
              count(gpt::Part::norm) + count(gpt::Part::head));
}

Time timed(const Layout& layout, const Machine& machine) {
  return time_of(small, gpt::Precision::float32, layout, machine);
}

TEST(ExposedCommunication, OfReductionsStartsWhenTheirDataAreReadyAndTheLinkIsFree) {
  // The first reduction runs from time 2 to 5. The second one is ready at 3, when computing ends, and runs from 5 to 6.
  EXPECT_EQ(exposed_communication_s({{.compute_s = 2, .reduce_s = 3}, {.compute_s = 1, .reduce_s = 1}}, 1), 3);
  EXPECT_EQ(exposed_communication_s({{.compute_s = 2, .reduce_s = 3}, {.compute_s = 4}}, 1), 0);
  EXPECT_EQ(exposed_communication_s({}, 1), 0);
}

TEST(ExposedCommunication, IncludesTheShareOfACollectiveThatCannotOverlap) {
  // 2 of the 4 cannot overlap; computation hides 1 of the other 2.
  EXPECT_EQ(exposed_communication_s({{.reduce_s = 4}, {.compute_s = 1}}, 0.5), 3);
  EXPECT_EQ(exposed_communication_s({{.reduce_s = 4}, {.compute_s = 9}}, 0), 4);
}

// The first gather runs from time 0 to 1, the second one beside the first computation from 1 to 4. The third one is not
// issued before the second computation starts at 4, and ends at 6, after that computation.
TEST(ExposedCommunication, OfGathersStartsWithTheComputationBefore) {
  EXPECT_EQ(exposed_communication_s({{1, 2, 0}, {3, 1, 0}, {2, 1, 0}}, 1), 1 + 1 + 1);
}

// A reduction runs from time 1 to 4, and the gather for the third computation is issued at 1.
TEST(ExposedCommunication, OfAGatherWaitsForAnEarlierReduction) {
  EXPECT_EQ(exposed_communication_s({{0, 1, 3}, {0, 1, 0}, {1, 2, 0}}, 1), 3);
  EXPECT_EQ(exposed_communication_s({{0, 1, 3}, {0, 1, 0}, {0, 2, 0}}, 1), 0);  // no gather, so no wait
}

// Ranks that use all cores overlap nothing, however many threads each has.
TEST(PredictedOverlap, IsNoneOnlyIfTheRanksUseAllTheCoresThatTheyShare) {
  EXPECT_EQ(overlap_of(/*ranks=*/3, /*threads=*/1, /*cores=*/4), 1);
  EXPECT_EQ(overlap_of(4, 1, 4), 0);
  EXPECT_EQ(overlap_of(2, 2, 4), 0);
  EXPECT_EQ(overlap_of(64, 2, 0), 1);
}

// On hosts of 8 devices, the mesh dp=4,tp=4 keeps the axis tp within a host and puts two ranks of the axis dp on each
// of two hosts. A ring over dp may use the links of both these ranks between the hosts.
TEST(PredictedBandwidth, OfAnAxisAcrossHostsIsTheSumOverTheRanksOfTheAxisOnAHost) {
  const MeshShape mesh = {{"dp", 4}, {"tp", 4}};
  const Network network{{100e9, 0}, {10e9, 0}, 8};
  const GroupLink tensor(mesh, "tp", network, 1), data(mesh, "dp", network, 1);
  EXPECT_DOUBLE_EQ(tensor.seconds("allgather", 4e9), 3e9 / 100e9);
  EXPECT_DOUBLE_EQ(data.seconds("allgather", 4e9), 3e9 / 20e9);
  EXPECT_DOUBLE_EQ(data.between(0, 1).bytes_per_s, 100e9);
  EXPECT_DOUBLE_EQ(data.between(1, 2).bytes_per_s, 10e9);
  EXPECT_DOUBLE_EQ(data.slowest().bytes_per_s, 10e9);
  EXPECT_DOUBLE_EQ(tensor.slowest().bytes_per_s, 100e9);
  // Hierarchical allreduce of 4 GB: a rank sends half of it twice within its host, and 2 GB between the two hosts.
  EXPECT_DOUBLE_EQ(data.seconds("allreduce", 4e9), std::min(6e9 / 20e9, 2 * 2e9 / 100e9 + 2e9 / 10e9));
  const GroupLink apart({{"dp", 2}, {"tp", 8}}, "dp", network, 1);
  EXPECT_DOUBLE_EQ(apart.seconds("allgather", 2e9), 1e9 / 10e9);
  const GroupLink shared(mesh, "tp", network, 2);
  EXPECT_DOUBLE_EQ(shared.seconds("allgather", 4e9), 3e9 / 50e9);
}

TEST(GroupLink, GivesCollectivesOfReplicasTheTimesThatDpbenchProjectPredicts) {
  const Network network{{450e9, 2e-6}, {50e9, 10e-6}, 4};
  for (const char* op : {"allreduce", "allgather", "reduce_scatter"})
    for (const int world : {2, 4, 8, 64}) {
      const StepShape step{.collectives = {{op, 50e6, 1, false}}};
      EXPECT_DOUBLE_EQ(GroupLink({{"dp", world}}, "dp", network, 1).seconds(op, 50e6),
                       step_time(step, 0, world, network).step_s)
          << op << " of " << world << " ranks";
    }
}

// 64 ranks on hosts of 4 reduce 1 kB fastest in a tree and 50 MB hierarchically.
TEST(GroupLink, AndDpbenchProjectChooseTheFastestAlgorithmForEachAllreduceOfAStep) {
  const Network network{{450e9, 2e-6}, {50e9, 10e-6}, 4};
  const GroupLink link({{"dp", 64}}, "dp", network, 1);
  const StepShape step{.collectives = {{"allreduce", 50e6, 1, false}, {"allreduce", 1e3, 1, false}}};
  const StepTime time = step_time(step, 0, 64, network);
  EXPECT_DOUBLE_EQ(time.step_s, link.seconds("allreduce", 50e6) + link.seconds("allreduce", 1e3));
  EXPECT_EQ(time.algorithm, Algorithm::hierarchical);
  EXPECT_EQ(fastest_algorithm("allreduce", 64, 1e3, network), Algorithm::tree);
  EXPECT_LT(time.step_s, step_time(step, 0, 64, network, Algorithm::hierarchical).step_s);
}

CaseRecord gpt_case(const std::string& model, int64_t batch, double forward_ns, double backward_ns,
                    double optimizer_ns) {
  const auto block_ns = static_cast<int64_t>(10 * (forward_ns + backward_ns + optimizer_ns));
  CaseRecord record = test::measured("cpu", 1, Scaling::weak, batch, block_ns);
  record.spec.workload = "gpt", record.spec.model = model;
  record.spec.id = case_id(record.spec);
  for (LaunchRecord& launch : record.launches)
    for (RankRecord& rank : launch.ranks)
      rank.phases_ns = {{"forward", forward_ns}, {"backward", backward_ns}, {"optimizer", optimizer_ns}};
  return record;
}

Report summarised(std::vector<CaseRecord> cases) {
  Report report = test::report_of(std::move(cases));
  summarise(report);
  return report;
}

TEST(SpeedOfADevice, IsFittedToItsMeasuredCasesAndInterpolatedBetweenTheirSizes) {
  const std::string model = "layers=8,hidden=64,heads=4,seq=32,vocab=512";
  const double flop = small.flop_per_row();
  // The measured run has a step of one sample at 1 GFLOP/s and a step of four samples at 3 GFLOP/s, each with an
  // optimizer step of 2 ms.
  const Report report = summarised(
      {gpt_case(model, 1, flop / 3, 2 * flop / 3, 2e6), gpt_case(model, 4, 4 * flop / 9, 8 * flop / 9, 2e6)});
  const Speed speed = speed_of(report, Device::cpu, Dtype::f32, /*threads=*/1);
  const double one = work_of(small, gpt::Part::layer, {}, gpt::Precision::float32, 1).forward.flop;
  ASSERT_EQ(speed.rates.size(), 2u);
  EXPECT_NEAR(speed.flop_per_s(one), 1e9, 1e5);
  EXPECT_NEAR(speed.flop_per_s(4 * one), 3e9, 1e5);
  EXPECT_NEAR(speed.flop_per_s(2 * one), 2e9, 1e5);
  EXPECT_NEAR(speed.flop_per_s(one / 8), 1e9, 1e5);
  EXPECT_NEAR(speed.flop_per_s(100 * one), 3e9, 1e5);
  // The prediction for four samples must equal the measured step time.
  PlanRequest asked = request_for(1);
  asked.machine.speed = speed;
  const Layout layout{.strategy = "cpu", .micro_batches = 1, .rows = 4};
  EXPECT_NEAR(timed(layout, asked.machine).step_s(), 4 * flop / 3e9 + 2e-3, 1e-6);
}

TEST(SpeedOfADevice, CannotBeFittedToARunThatDidNotMeasureGptOnOneDevice) {
  const auto refusal = [](const Report& report, Device device, Dtype dtype, int threads = 1) -> std::string {
    try {
      speed_of(report, device, dtype, threads);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  const Report other = summarised({test::measured("cpu", 1, Scaling::weak, 64, 10000)});
  expect_contains(refusal(other, Device::cpu, Dtype::f32), {test::sample_id, "gpt", "one cpu", "f32"});
  const Report good = summarised({gpt_case("small", 1, 1e6, 2e6, 1e5)});
  EXPECT_EQ(refusal(good, Device::cpu, Dtype::f32), "");
  expect_contains(refusal(good, Device::cpu, Dtype::bf16), {"bf16"});
  expect_contains(refusal(good, Device::cuda, Dtype::f32), {"one cuda"});
  expect_contains(refusal(good, Device::cpu, Dtype::f32, 2), {"--threads 2"});
}

TEST(PredictedOverlap, IsTheMeanMeasuredOnGpusOverStrategiesThatOverlapCommunication) {
  Report report = summarised({gpt_case("small", 1, 1e6, 2e6, 1e5)});
  EXPECT_EQ(measured_overlap(report), std::nullopt);
  for (const auto& [strategy, overlap] :
       std::vector<std::pair<std::string, double>>{{"ddp", 0.5}, {"fsdp", 0.9}, {"tp", 0}}) {
    report.cases.push_back(report.cases.front());
    report.cases.back().spec.strategy = strategy, report.cases.back().spec.world = 2;
    report.cases.back().spec.device = Device::cuda;
    report.cases.back().derived.overlap = overlap;
  }
  EXPECT_NEAR(measured_overlap(report).value_or(0), 0.7, 1e-12);
  for (CaseRecord& record : report.cases) record.spec.device = Device::cpu;
  EXPECT_EQ(measured_overlap(report), std::nullopt);
}

TEST(PredictedTime, OfOneDeviceIsTheModelsFlopDividedByTheDevicesFlopRate) {
  const Layout layout{.strategy = "cpu", .micro_batches = 4, .rows = 4};
  const Time time = timed(layout, request_for(1).machine);
  EXPECT_NEAR(time.step_s(), 16 * small.flop_per_row() / rate, 1e-9);
  EXPECT_EQ(time.tensor_s + time.context_s + time.data_s + time.bubble_s, 0);
}

TEST(PredictedTime, OfReplicasAddsOneAllreduceOfAllGradients) {
  const Time time = timed(layout_on({{"dp", 2}}, 1), request_for(2).machine);
  EXPECT_NEAR(time.data_s, 2e-6 + bytes_of(small) / 100e9, 1e-9);
  EXPECT_NEAR(time.computing_s, 8 * small.flop_per_row() / rate, 1e-9);
  Layout ddp = layout_on({{"dp", 2}}, 1);
  ddp.strategy = "ddp", ddp.overlapped = true;
  EXPECT_LT(timed(ddp, request_for(2).machine).data_s, time.data_s);
}

// The blocks of a ddp step are buckets of `dpbench project`, each ready when its block's backward pass ends.
TEST(PredictedTime, OfDdpIsWhatDpbenchProjectPredictsForTheSameBuckets) {
  Machine machine = request_for(4).machine;
  machine.network.intra = {10e9, 1e-6};
  Layout ddp = layout_on({{"dp", 4}}, 1);
  ddp.strategy = "ddp", ddp.overlapped = true;
  const BlockWork model = work_of_model(small, gpt::Precision::float32, 4);
  const double all = model.forward.flop + model.backward.flop;
  double done = model.forward.flop;
  StepShape step;
  const auto add = [&](gpt::Part part) {
    done += work_of(small, part, {}, gpt::Precision::float32, 4).backward.flop;
    const auto bytes = 4 * static_cast<double>(gpt::parameters(small, part, {}));
    step.collectives.push_back({"allreduce", bytes, done / all, true});
  };
  add(gpt::Part::head), add(gpt::Part::norm);
  for (int64_t layer = 0; layer < small.layers; ++layer) add(gpt::Part::layer);
  add(gpt::Part::embed);
  const Time time = timed(ddp, machine);
  const StepTime projected = step_time(step, all / rate, 4, machine.network);
  EXPECT_NEAR(time.step_s(), projected.step_s, 1e-12);
  EXPECT_NEAR(time.data_s, projected.exposed_s, 1e-12);
  EXPECT_GT(time.data_s, 0);
  EXPECT_LT(time.data_s, projected.communication_s);
}

TEST(PredictedTime, OfFsdpIsShorterIfUnitsStayGathered) {
  Machine slow = request_for(4).machine;
  slow.network.intra = {1e9, 0};
  Layout fsdp = layout_on({{"dp", 4}}, 1);
  fsdp.strategy = "fsdp", fsdp.sharding = Sharding::parameters, fsdp.overlapped = true;
  const double freed_s = timed(fsdp, slow).data_s;
  fsdp.reshard = false;
  EXPECT_LT(timed(fsdp, slow).data_s, 0.8 * freed_s);
}

// Two ranks send half of what they gather or reduce-scatter. The table of the embedding or of an untied head stays
// gathered until the backward pass; all other parameters are gathered twice.
TEST(PredictedTime, OfFsdpGathersTheTableOfTheTiedEmbeddingOrTheHeadOnceAndOtherParametersTwice) {
  Machine machine = request_for(2).machine;
  machine.network.intra = {100e9, 0};
  machine.overlap = 0;
  Layout fsdp = layout_on({{"dp", 2}}, 1);
  fsdp.strategy = "fsdp", fsdp.sharding = Sharding::parameters, fsdp.overlapped = true;
  gpt::Shape shape = small;
  for (const bool tied : {true, false}) {
    shape.tied = tied;
    const double all = bytes_of(shape), table = 4.0 * 512 * 64;
    EXPECT_NEAR(time_of(shape, gpt::Precision::float32, fsdp, machine).data_s, (3 * all - table) / 2 / 100e9, 1e-12);
  }
}

// In the forward pass of a layer, each of two ranks sends its keys and values. In the backward pass it sends them again
// with their gradients in one hop, and the gradients of the other rank's keys and values back in a second hop.
TEST(PredictedTime, OfContextParallelismAddsFourExchangesOfKeysAndValuesPerLayerAndOneAllreduce) {
  Machine machine = request_for(2).machine;
  machine.overlap = 0;
  const double keys_and_values = 2 * 4.0 * 16 * 16 * 64;  // 16 samples of 16 tokens
  const double layer_s = 3e-6 + 4 * keys_and_values / 100e9;
  const double allreduce_s = 2e-6 + bytes_of(small) / 100e9;
  EXPECT_NEAR(timed(layout_on({{"cp", 2}}, 1), machine).context_s, 8 * layer_s + allreduce_s, 1e-9);
  // With an overlap of 0.5, slow computation hides half of the exchange in the forward pass and of the first hop in the
  // backward pass. Nothing hides the second hop, which sends gradients back.
  machine.overlap = 0.5, machine.speed = constant_speed(1e6, "a test");
  const double half_s = 0.5 * (2e-6 + 3 * keys_and_values / 100e9) + 1e-6 + keys_and_values / 100e9;
  EXPECT_NEAR(timed(layout_on({{"cp", 2}}, 1), machine).context_s, 8 * half_s + allreduce_s, 1e-9);
}

TEST(PredictedTime, OfTensorParallelismAddsFourAllreducesPerLayerAndOneEachForEmbeddingAndHead) {
  const Time time = timed(layout_on({{"tp", 2}}, 1), request_for(2).machine);
  const double sum_s = 2e-6 + 4.0 * 16 * 32 * 64 / 100e9;
  EXPECT_NEAR(time.tensor_s, (4 * 8 + 2) * sum_s, 1e-9);
  EXPECT_NEAR(time.computing_s, 16 * small.flop_per_row() / rate / 2, 1e-9);
}

// For P equal stages, M micro-batches and messages that take no time, the bubble is (P - 1) / M of the busy time.
TEST(PredictedTime, OfA1f1bPipelineHasABubbleOfStagesMinusOneOverMicroBatches) {
  const gpt::Shape even = gpt::parse_shape("layers=8,hidden=64,heads=4,seq=32,vocab=1,style=llama,mlp=256");
  Machine machine = request_for(4).machine;
  machine.network.intra = {1e30, 0};
  Layout layout = layout_on({{"pp", 4}}, 8);
  // the stages: embedding and 2 layers; 2 layers; 2 layers; 2 layers with norm and head
  layout.stage_sizes = {3, 2, 2, 4};
  const Time time = time_of(even, gpt::Precision::float32, layout, machine);
  EXPECT_NEAR(time.bubble_s / time.computing_s, 3.0 / 8, 2e-3);
}

TEST(PredictedTime, OfAPipelineWithATiedEmbeddingAddsOneExchangeOfTheEmbeddingsGradient) {
  const Machine machine = request_for(4).machine;
  const Layout layout = layout_on({{"pp", 4}}, 4);
  gpt::Shape untied = small;
  ASSERT_TRUE(small.tied);
  untied.tied = false;
  const double added_s =
      timed(layout, machine).bubble_s - time_of(untied, gpt::Precision::float32, layout, machine).bubble_s;
  EXPECT_NEAR(added_s, 1e-6 + 4.0 * 512 * 64 / 100e9, 1e-12);
}

TEST(PredictedTime, OfRanksThatShareCoresIsAtLeastTheirTotalWorkDividedByTheCores) {
  Machine machine = request_for(4).machine;
  machine.cores = 2;
  machine.overlap = 0;
  const double work = 16 * small.flop_per_row() / rate;
  for (const MeshShape& mesh : std::vector<MeshShape>{{{"dp", 4}}, {{"tp", 4}}, {{"pp", 4}}})
    EXPECT_GE(timed(layout_on(mesh, 4), machine).step_s(), work / 2 * 0.999) << text_of(mesh);
  machine.cores = 4;
  EXPECT_LT(timed(layout_on({{"dp", 4}}, 4), machine).computing_s, work / 4 * 1.001);
}

TEST(PredictedMemory, ShrinksWithEachKindOfSharding) {
  const auto bytes = [&](Sharding sharding, bool overlapped) {
    Layout layout{.strategy = "a", .mesh = {{"dp", 8}}, .sharding = sharding, .overlapped = overlapped};
    return memory_of(small, gpt::Precision::float32, layout);
  };
  const Memory ddp = bytes(Sharding::replicated, true), zero1 = bytes(Sharding::state, false),
               zero2 = bytes(Sharding::gradients, true), fsdp = bytes(Sharding::parameters, true);
  EXPECT_DOUBLE_EQ(zero1.state, ddp.state / 8);
  EXPECT_LT(zero2.gradients, zero1.gradients);
  EXPECT_DOUBLE_EQ(fsdp.parameters, zero2.parameters / 8);
  EXPECT_GT(ddp.total(), zero1.total());
  EXPECT_GT(zero1.total(), zero2.total());
}

// One device needs most memory just after it has computed the loss. Under fsdp a rank needs most in the backward pass
// of the last layer: this layer and the next are gathered, and this layer has gradients.
TEST(PredictedMemory, OfFsdpHoldsTheEmbeddingTwoGatheredLayersAndTheGradientsOfOne) {
  const gpt::Shape shape = gpt::parse_shape("layers=6,hidden=256,heads=8,seq=128,vocab=2048");
  const auto bytes = [&](gpt::Part part) { return 4 * static_cast<double>(gpt::parameters(shape, part, {})); };
  const Layout one{.strategy = "cpu", .rows = 2};
  EXPECT_EQ(memory_of(shape, gpt::Precision::float32, one).gradients, 0);
  Layout fsdp{.strategy = "fsdp", .mesh = {{"dp", 4}}, .sharding = Sharding::parameters, .overlapped = true, .rows = 2};
  EXPECT_DOUBLE_EQ(memory_of(shape, gpt::Precision::float32, fsdp).buffers,
                   bytes(gpt::Part::embed) + 3 * bytes(gpt::Part::layer));
}

TEST(LayoutPlan, ListsLayoutsThatFitAndFindsTheFastest) {
  const LayoutPlan plan = plan_layouts(request_for(8));
  ASSERT_FALSE(plan.fitting.empty());
  EXPECT_EQ(plan.too_large, 0u);
  EXPECT_TRUE(std::ranges::is_sorted(plan.fitting, {}, [](const Prediction& one) { return one.time.step_s(); }));
  ASSERT_EQ(plan.best.size(), 3u);
  EXPECT_EQ(plan.best[0].prediction.time.step_s(), plan.fitting[0].time.step_s());
  std::set<std::string> families;
  for (const Advised& one : plan.best)
    families.insert(one.prediction.layout.strategy + text_of(one.prediction.layout.mesh));
  EXPECT_EQ(families.size(), 3u);
  for (const Advised& one : plan.best) {
    EXPECT_EQ(std::ranges::count(one.reasons, parts_text(one.prediction.time)), 1);
    EXPECT_EQ(std::ranges::count(one.reasons, parts_text(one.prediction.memory)), 1);
  }
  for (const Prediction& one : plan.fitting) {
    EXPECT_EQ(ranks_of(one.layout.mesh), 8) << text_of(one.layout);
    const int replicas = one.layout.size("dp") * one.layout.size("shard");
    EXPECT_EQ(one.layout.rows * one.layout.micro_batches * replicas, 16) << text_of(one.layout);
  }
}

TEST(LayoutPlan, TellsThePartsOfMemoryInPercentLargestFirstAndOmitsPartsBelowOnePercent) {
  const Memory memory{.parameters = 10, .gradients = 9, .state = 20, .activations = 60.4, .buffers = 0.6};
  EXPECT_EQ(parts_text(memory), "memory: activations 60 %, optimizer state 20 %, parameters 10 %, gradients 9 %");
}

CaseSpec gpt_spec(const std::string& strategy, const std::string& mesh,
                  std::map<std::string, std::string> params = {}) {
  CaseSpec spec;
  spec.strategy = strategy, spec.mesh = mesh, spec.params = std::move(params);
  spec.workload = "gpt", spec.model = "layers=8,hidden=64,heads=4,seq=32,vocab=512";
  spec.world = mesh.empty() ? 1 : ranks_of(parse_mesh(mesh));
  spec.scaling = Scaling::strong, spec.batch = 16;
  return spec;
}

TEST(CaseMemory, PredictedForACaseEqualsTheMemoryPredictedForItsLayout) {
  const auto total = [](const CaseSpec& spec) { return static_cast<double>(formula_memory(spec).value().total()); };
  const auto of_layout = [](Layout layout) { return memory_of(small, gpt::Precision::float32, layout).total(); };
  Layout ddp{.strategy = "ddp", .mesh = {{"dp", 2}}, .overlapped = true, .rows = 8};
  EXPECT_NEAR(total(gpt_spec("ddp", "dp=2")), of_layout(ddp), 3);
  Layout fsdp = ddp;
  fsdp.sharding = Sharding::parameters, fsdp.reshard = false;
  EXPECT_NEAR(total(gpt_spec("fsdp", "dp=2", {{"reshard", "off"}})), of_layout(fsdp), 3);
  const Layout tensor{.strategy = "layout", .mesh = {{"tp", 2}}, .sequence = true, .rows = 16};
  EXPECT_NEAR(total(gpt_spec("tp", "tp=2", {{"sequence", "on"}})), of_layout(tensor), 3);
  Layout pipe = layout_on({{"pp", 2}}, 4);
  // how pp cuts 11 blocks into stages of equal FLOP: the last block has the head's matrix product
  pipe.stage_sizes = {5, 6};
  EXPECT_NEAR(total(gpt_spec("pp", "pp=2", {{"microbatches", "4"}})), of_layout(pipe), 3);
  pipe.stage_sizes = {4, 7};
  EXPECT_NEAR(total(gpt_spec("pp", "pp=2", {{"microbatches", "4"}, {"blocks", "4+7"}})), of_layout(pipe), 3);
  EXPECT_EQ(total(gpt_spec("fsdp", "")), total(gpt_spec("cpu", ""))) << "one rank shards nothing";
  CaseSpec half = gpt_spec("cpu", "");
  half.batch = 8;
  for (const auto& params : {std::map<std::string, std::string>{}, {{"average_every", "2"}}})
    EXPECT_EQ(total(gpt_spec("local-sgd", "dp=2", params)), total(half)) << "a rank trains 8 of the 16 samples alone";
  CaseSpec fast = gpt_spec("ddp", "dp=2");
  fast.runtime = Runtime::fast;
  EXPECT_EQ(total(fast), total(gpt_spec("ddp", "dp=2"))) << "both runtimes keep the same tensors";
}

TEST(CaseMemory, IsUnknownForSettingsWithoutAFormula) {
  std::vector<CaseSpec> unknown = {gpt_spec("dp", ""), gpt_spec("fsdp", "dp=2", {{"prefetch", "2"}}),
                                   gpt_spec("pp", "pp=2", {{"schedule", "gpipe"}}), gpt_spec("layout", "shard=2")};
  // no formula: the gradients of the first micro-batch are not reduced, so they stay unsharded
  unknown.back().accumulate = 2;
  for (int i = 0; i < 3; ++i) unknown.push_back(gpt_spec("cpu", ""));
  unknown[4].device = Device::cuda, unknown[5].workload = "mnist-mlp", unknown[6].model = "small,experts=4";
  for (const CaseSpec& spec : unknown) EXPECT_FALSE(formula_memory(spec)) << case_id(spec);
}

TEST(LayoutPlan, NoLayoutOfTheParetoFrontIsBeatenInTimeAndMemory) {
  const LayoutPlan plan = plan_layouts(request_for(8));
  EXPECT_FALSE(plan.front.empty());
  for (const Prediction& one : plan.front)
    for (const Prediction& other : plan.fitting)
      EXPECT_FALSE(other.time.step_s() < one.time.step_s() && other.memory.total() < one.memory.total())
          << text_of(other.layout) << " beats " << text_of(one.layout);
}

// plan_layouts() does not simulate a pipeline that another layout certainly beats. Here all layouts are simulated.
TEST(LayoutPlan, KeepsOfEachMeshAndStrategyTheLayoutsThatNoOtherOneBeatsInTimeAndMemory) {
  PlanRequest asked = request_for(16);
  asked.batch = 64;
  const Space space{.shape = small, .devices = 16, .gpus = true, .batch = 64};
  std::map<std::string, std::vector<Prediction>> all;
  each_layout(space, [&](const Layout& layout) {
    all[layout.strategy + text_of(layout.mesh)].push_back(
        {layout, memory_of(small, gpt::Precision::float32, layout), timed(layout, asked.machine)});
  });
  std::set<std::string> expected, found;
  for (auto& [family, layouts] : all) {
    std::ranges::stable_sort(layouts, {}, [](const Prediction& one) { return one.time.step_s(); });
    double least = 1e300;
    for (const Prediction& one : layouts)
      if (one.memory.total() < least) least = one.memory.total(), expected.insert(text_of(one.layout));
  }
  for (const Prediction& one : plan_layouts(asked).fitting) {
    found.insert(text_of(one.layout));
    EXPECT_EQ(one.time.step_s(), timed(one.layout, asked.machine).step_s()) << text_of(one.layout);
  }
  EXPECT_EQ(found, expected);
}

TEST(PredictedTime, IsLeftOutOnlyOfAPipelineThatTakesLongerThanAskedFor) {
  const Machine machine = request_for(4).machine;
  for (const int stages : {1, 2}) {
    Layout layout = layout_on({{"dp", 2}, {"pp", 2}}, 4);
    layout.schedule = pipeline::find_family(stages > 1 ? "interleaved" : "1f1b"), layout.stages = stages;
    layout.stage_sizes = spread_blocks(small, layout);
    const double step_s = timed(layout, machine).step_s();
    const auto within = [&](double most_s) {
      return time_within(small, gpt::Precision::float32, layout, machine, most_s);
    };
    ASSERT_TRUE(within(step_s));
    EXPECT_EQ(within(step_s)->step_s(), step_s);
    EXPECT_FALSE(within(0.5 * step_s));
  }
}

TEST(LayoutPlan, LeavesOutLayoutsAboveTheMemoryLimit) {
  const LayoutPlan all = plan_layouts(request_for(8));
  const double limit = all.front.back().memory.total() * 1.001;  // just above the memory of the smallest layout
  const LayoutPlan plan = plan_layouts(request_for(8, limit));
  EXPECT_EQ(plan.examined, all.examined);
  EXPECT_GT(plan.too_large, 0u);
  for (const Prediction& one : plan.fitting) EXPECT_LE(one.memory.total(), limit);
  for (const Prediction& one : plan.unfitting) EXPECT_GT(one.memory.total(), limit);
  const LayoutPlan none = plan_layouts(request_for(8, 1000));
  EXPECT_TRUE(none.fitting.empty() && none.best.empty());
  EXPECT_EQ(none.too_large, none.examined);
  expect_contains(map_svg(none), {"No layout", "</svg>"});
}

// The committed schema file must equal the output of `dpbench schema plan`.
TEST(LayoutPlan, InJsonMatchesItsSchemaFileInGit) {
  const std::string file = DPBENCH_SOURCE "/results/schema/plan-1.schema.json";
  EXPECT_EQ(read_text(file, 1 << 20), plan_schema().dump(1) + "\n");
  for (const PlanRequest& asked : {request_for(1), request_for(8), request_for(8, 1000)})
    EXPECT_EQ(schema_problems(to_json(plan_layouts(asked)), plan_schema()), std::vector<std::string>{});
}

TEST(LayoutPlan, LimitsTensorParallelismToAHost) {
  PlanRequest asked = request_for(8);
  asked.machine.network.host_size = 2;
  std::set<int> sizes;
  for (const Prediction& one : plan_layouts(asked).fitting) sizes.insert(one.layout.size("tp"));
  EXPECT_EQ(sizes, (std::set<int>{1, 2}));
  // On hosts of 6 devices, ranks 4 to 7, a group of tp=4, would lie on two hosts.
  asked = request_for(12);
  asked.batch = 12;
  asked.machine.network.host_size = 6;
  for (const Prediction& one : plan_layouts(asked).fitting) EXPECT_NE(one.layout.size("tp"), 4) << text_of(one.layout);
}

TEST(LayoutPlan, HasNoSequenceParallelismWithFewerTokensThanTensorRanks) {
  PlanRequest asked = request_for(16);
  asked.shape = gpt::parse_shape("layers=8,hidden=64,heads=4,seq=8,vocab=512");
  const auto some_cut = [&](const MeshShape& mesh) {
    asked.meshes = {mesh};
    const LayoutPlan plan = plan_layouts(asked);
    EXPECT_FALSE(plan.fitting.empty()) << text_of(mesh);
    return std::ranges::any_of(plan.fitting, [](const Prediction& one) { return one.layout.sequence; });
  };
  EXPECT_FALSE(some_cut({{"cp", 4}, {"tp", 4}}));  // each rank of cp has 2 tokens, fewer than the 4 ranks of tp
  EXPECT_TRUE(some_cut({{"dp", 2}, {"cp", 2}, {"tp", 4}}));
}

TEST(LayoutPlan, ListsEachExaminedLayoutOfARequestedMeshOnce) {
  PlanRequest asked = request_for(4);
  asked.meshes = {{{"tp", 2}, {"pp", 2}}};
  const LayoutPlan plan = plan_layouts(asked);
  EXPECT_EQ(plan.fitting.size(), plan.examined);
  std::set<std::string> names;
  for (const Prediction& one : plan.fitting) names.insert(text_of(one.layout));
  EXPECT_EQ(names.size(), plan.fitting.size());
  EXPECT_TRUE(names.contains("layout pp=2,tp=2, 1f1b, 4 x 4 samples, sequence, recompute"));
}

TEST(LayoutPlan, PrintsTheFlagsThatRunAndCheckALayout) {
  Layout layout = layout_on({{"shard", 4}, {"pp", 2}, {"tp", 2}}, 4);
  layout.sharding = Sharding::parameters, layout.sequence = true, layout.recompute = 1, layout.reshard = false;
  layout.rows = 1;
  EXPECT_EQ(flags_of(layout, /*threads=*/0),
            "--strategy layout --gpus 16 --mesh shard=4,pp=2,tp=2 --scaling strong --batch 16 --accumulate 4 "
            "--recompute 1 --param layout.schedule=1f1b --param layout.blocks=5+6 --param layout.sequence=on "
            "--param layout.reshard=off");
  EXPECT_EQ(check_flags_of(layout),
            "--strategy layout --mesh shard=2,pp=2,tp=2 --recompute 1 --param layout.schedule=1f1b "
            "--param layout.sequence=on --param layout.reshard=off");
}

TEST(LayoutMap, MarksTheFastestLayoutAndTheMemoryLimitAndKeepsToTheGivenWidth) {
  PlanRequest asked = request_for(8, 40e6);
  asked.machine.speed.fitted_to = "mine.json: cases";
  const LayoutPlan plan = plan_layouts(asked);
  const std::string text = map_text(plan, 80);
  expect_contains(text, {"o fits", "|: 0.040 GB", "1"});
  size_t longest = 0;
  for (size_t from = 0, to; (to = text.find('\n', from)) != std::string::npos; from = to + 1)
    longest = std::max(longest, to - from);
  EXPECT_LE(longest, 80u);
  // The map draws a memory limit beyond all layouts at its right edge.
  const std::string wide = map_text(plan_layouts(request_for(8, 1e12)), 80);
  EXPECT_EQ(wide.substr(0, wide.find('\n')).size(), 79u);
  expect_contains(map_svg(plan),
                  {"fill=\"white\"", "stroke-dasharray", text_of(plan.best.at(0).prediction.layout), "mine.json"});
}

}  // namespace
}  // namespace dpbench::forecast
