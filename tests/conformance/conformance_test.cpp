// Runs the conformance suite on every registered strategy and workload, with their parameters, dtypes and meshes. New
// registrations are tested automatically. A run tests a share of the cases, another share each day (draw.h), or all
// if DPBENCH_CASES is "all". For zero2 and fsdp it tests at least one case with each number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "harness/conform/scenario/choose_scenarios.h"
#include "tests/ranks/threads.h"
#include "tests/support/draw.h"

namespace dpbench {
namespace {

struct Case {
  std::string strategy, workload;
  int world;
  Variant variant = {};
  at::ScalarType dtype = at::kFloat;
  std::string mesh = {};
  int64_t recompute = 0;  // the flag --recompute
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.strategy << (one.variant.name.empty() ? "" : "+") << one.variant.name << ' ' << one.workload << ' '
       << one.world;
}

// Returns a mesh of all ranks on the strategy's first axis; empty if that axis is dp or the strategy does not use
// ranks.
std::string mesh_of(const StrategyInfo& strategy, int world) {
  if (strategy.axes.front() == "dp" || strategy.parallelism != Parallelism::ranks) return "";
  return strategy.axes.front() + "=" + std::to_string(world);
}

bool uses_axis(const StrategyInfo& strategy, const std::string& axis) {
  return std::ranges::count(strategy.axes, axis) > 0;
}

// True for zero2 and fsdp. Their cases come from sharded() instead of cases().
bool is_sharded(const StrategyInfo& strategy) { return uses_axis(strategy, "shard") && strategy.name != "layout"; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& strategy : strategy_registry().all())
    for (const auto& workload : workload_registry().all())
      for (const int world : {1, 3}) {
        const bool fits = strategy.cpu && (world == 1 || strategy.parallelism != Parallelism::single);
        if (fits && !is_sharded(strategy)) all.push_back({strategy.name, workload.name, world});
      }
  return all;
}

// Returns cases of each declared variant of a strategy's parameters, on workloads that can reveal a mistake in this
// variant: mostly probe models (small models made for checks).
std::vector<Case> variants() {
  std::vector<Case> all;
  for (const auto& strategy : strategy_registry().all())
    for (const auto& variant : strategy.variants) {
      const StrategyInfo promises = promised(strategy, Params(strategy.params, variant.params, strategy.name));
      if (!promises.cpu) continue;  // this variant needs a GPU, so scripts/gpu-check tests it instead
      if (promises.buffers == Buffers::synchronised) {
        for (const auto& [workload, world] :
             {std::pair{"probe-batch-norm", 1}, {"probe-batch-norm", 3}, {"convnet", 3}})
          // only BatchNorm has buffers to synchronise, and these models contain it
          all.push_back({strategy.name, workload, world, variant});
        continue;
      }
      if (promises.onednn) {  // the layers of probe models are too small for oneDNN, so mnist-mlp is used
        for (const int world : {1, 3})
          if (world == 1 || strategy.parallelism != Parallelism::single)
            all.push_back({strategy.name, "mnist-mlp", world, variant});
        continue;
      }
      for (const char* workload : {"probe-mlp-sgd", "probe-branch"})
        all.push_back({strategy.name, workload, 1, variant});
      for (const char* workload : {"probe-mlp", "probe-batch-norm", "probe-branch", "probe-unused", "probe-strided",
                                   "probe-mixed", "probe-exact"})
        all.push_back({strategy.name, workload, 3, variant});
      // In exact arithmetic, the gradient of convnet's bias before a BatchNorm is zero. Its computed value is a
      // rounding error that depends on how gradients are summed, and must not fail a check.
      if (!promises.allows_no_samples && (promises.reduced_in || promises.gradient == Gradient::global_mean))
        all.push_back({strategy.name, "convnet", 3, variant});
    }
  return all;
}

// Returns cases under autocast to bfloat16, which rounds more than float32, so their checks have wider error bounds.
std::vector<Case> in_bfloat16() {
  std::vector<Case> all;
  const auto add = [&](const StrategyInfo& strategy, const char* workload) {
    all.push_back({strategy.name,
                   workload,
                   strategy.parallelism == Parallelism::single ? 1 : 3,
                   {"autocast", {}},
                   at::kBFloat16});
  };
  for (const auto& strategy : strategy_registry().all())
    for (const char* workload : {"probe-mlp", "probe-batch-norm"})
      if (strategy.cpu) add(strategy, workload);
  // Here, fsdp gathers parameters in their own dtype; sharded() has cases of fsdp with gather=bf16.
  for (const char* strategy : {"cpu", "dp", "ddp", "zero1", "local-sgd", "fsdp"})
    add(strategy_registry().at(strategy), "gpt");
  // This model uses a weight twice. If autocast cached the cast weight, threads such as dp's replicas would share the
  // cache, and their gradients could get other bits.
  for (const char* strategy : {"cpu", "dp", "ddp", "zero1", "local-sgd"})
    add(strategy_registry().at(strategy), "probe-tied");
  return all;
}

// Returns cases of zero2 and fsdp: on each workload; on models made of blocks, which the strategies gather and free one
// after the other; and on a mesh of two replicas with two shards each.
std::vector<Case> sharded() {
  std::vector<Case> all;
  for (const auto& strategy : strategy_registry().all()) {
    if (!is_sharded(strategy)) continue;
    for (const auto& workload : workload_registry().all())
      for (const int world : {1, 3}) all.push_back({strategy.name, workload.name, world});
    for (const auto& variant : strategy.variants)
      for (const char* workload : {"gpt", "gpt-exact", "probe-optional"})
        all.push_back({strategy.name, workload, 3, variant});
    for (const auto& variant : strategy.variants)
      if (promised(strategy, Params(strategy.params, variant.params, strategy.name)).used_in)
        all.push_back({strategy.name, "gpt", 3, {variant.name + "_autocast", variant.params}, at::kBFloat16});
    // With five ranks, parameter sizes do not divide evenly, and some parameters have fewer rows than there are ranks.
    for (const int world : {2, 5})
      for (const char* workload : {"gpt", "gpt-exact", "gpt-exact-llama", "probe-mlp", "probe-blocks", "probe-optional",
                                   "probe-frozen", "probe-tied", "probe-reused"})
        all.push_back({strategy.name, workload, world});
    std::vector<Variant> on_mesh = {{"mesh", {}}};
    for (const ParamInfo& param : strategy.params)
      if (param.name == "reshard") {
        on_mesh.push_back({"mesh_between", {{"reshard", "shard"}}});
        for (const char* workload : {"gpt", "gpt-exact", "convnet", "probe-tied"})
          all.push_back({strategy.name, workload, 4, {"groups", {{"reshard", "2"}}}});
        const Variant narrow{"groups_narrow", {{"reshard", "2"}, {"gather", "bf16"}}};
        all.push_back({strategy.name, "gpt", 4, narrow, at::kBFloat16});
      }
    for (const Variant& variant : on_mesh)
      for (const char* workload : {"gpt", "gpt-exact", "convnet", "probe-frozen", "probe-tied", "probe-optional"})
        all.push_back({strategy.name, workload, 4, variant, at::kFloat, "dp=2,shard=2"});
    // Among two shards, a sum in another order has the same bits; among three it has not.
    for (const char* workload : {"gpt", "probe-tied"})
      all.push_back({strategy.name, workload, 6, {"mesh_of_three", {}}, at::kFloat, "dp=2,shard=3"});
  }
  return all;
}

// Returns the cases of sharded() that this run tests: at least one case of each strategy with each number of ranks, and
// at most a twelfth of all cases, or all if DPBENCH_CASES is "all".
std::vector<Case> drawn_sharded() {
  return drawn_of_each(sharded(), 30, [](const Case& one) { return std::pair(one.strategy, one.world); });
}

// Returns cases of pp (pipeline parallelism) with parameter `microbatches`, which cuts each micro-batch into parts.
// Their models treat samples independently.
std::vector<Case> in_parts() {
  std::vector<Case> all;
  for (const char* workload : {"gpt", "gpt-exact", "gpt-exact-llama", "mnist-mlp", "probe-tied", "probe-blocks"})
    for (const auto& [name, params] : {std::pair<std::string, ParamValues>{"parts", {{"microbatches", "3"}}},
                                       {"interleaved_parts", {{"microbatches", "3"}, {"schedule", "interleaved"}}}}) {
      const int blocks = std::string_view(workload) == "mnist-mlp" ? 2 : 3;
      all.push_back({"pp", workload, blocks, {name, params}});
    }
  return all;
}

// Returns cases of pp (pipeline parallelism) on a mesh of two replicas, each a pipeline of two stages.
std::vector<Case> replicated_pipelines() {
  std::vector<Case> all;
  for (const auto& [name, params] : {std::pair<std::string, ParamValues>{"grid", {}},
                                     {"grid_gpipe", {{"schedule", "gpipe"}, {"poison", "on"}}},
                                     {"grid_interleaved", {{"schedule", "interleaved"}}}})
    for (const char* workload : {"gpt", "gpt-exact", "convnet", "probe-mlp", "probe-tied", "probe-blocks"})
      all.push_back({"pp", workload, 4, {name, params}, at::kFloat, "dp=2,pp=2"});
  return all;
}

// Returns cases of tp (tensor parallelism), on models that tp can divide among ranks.
std::vector<Case> divided() {
  std::vector<Case> all;
  const ParamValues sequence = {{"sequence", "on"}}, both = {{"sequence", "on"}, {"chunks", "2"}};
  for (const char* workload : {"gpt", "gpt-exact", "gpt-exact-llama"})
    for (const auto& [name, params] : {std::pair{"sequence", sequence}, {"sequence_chunks", both}})
      all.push_back({"tp", workload, 3, {name, params}});
  for (const char* workload : {"gpt", "gpt-exact", "mnist-mlp", "convnet"})
    all.push_back({"tp", workload, 3, {"chunks", {{"chunks", "2"}}}});
  for (const char* workload : {"gpt", "gpt-exact", "gpt-exact-llama", "mnist-mlp", "convnet", "probe-mlp"})
    all.push_back({"tp", workload, 4, {"grid", {}}, at::kFloat, "dp=2,tp=2"});
  all.push_back({"tp", "gpt", 4, {"grid_sequence", sequence}, at::kFloat, "dp=2,tp=2"});
  all.push_back({"tp", "gpt", 3, {"autocast_gpt", sequence}, at::kBFloat16});
  return all;
}

// Returns cases with recomputation: the backward pass computes each block of the model again.
std::vector<Case> recomputing() {
  std::vector<Case> all;
  for (const char* strategy : {"ddp", "fsdp", "tp", "pp"})
    all.push_back({.strategy = strategy, .workload = "gpt", .world = 3, .variant = {"recompute", {}}, .recompute = 1});
  const Variant zb_h1{"recompute_zb_h1", {{"schedule", "zb-h1"}}};
  all.push_back({.strategy = "pp", .workload = "gpt", .world = 3, .variant = zb_h1, .recompute = 1});
  return all;
}

// Returns cases of cp (context parallelism), on models that read sequences of tokens.
std::vector<Case> in_tokens() {
  std::vector<Case> all;
  for (const auto& [name, params] : {std::pair<std::string, ParamValues>{"", {}},
                                     {"ulysses", {{"kind", "ulysses"}}},
                                     {"one_piece", {{"zigzag", "off"}, {"poison", "on"}}}}) {
    for (const char* workload : {"gpt", "gpt-exact", "gpt-exact-llama", "probe-llama"})
      for (const int world : {2, 3})
        if (world == 2 || !name.empty()) all.push_back({"cp", workload, world, {name, params}});
    all.push_back({"cp", "gpt", 4, {name + "grid", params}, at::kFloat, "dp=2,cp=2"});
    all.push_back({"cp", "gpt", 3, {name + "autocast", params}, at::kBFloat16});
  }
  for (const char* workload : {"gpt-exact", "probe-llama"}) all.push_back({"cp", workload, 4});
  return all;
}

// Returns cases of ep (expert parallelism), on models with experts.
std::vector<Case> with_experts() {
  std::vector<Case> all;
  for (const int world : {2, 3}) all.push_back({"ep", "probe-experts", world, {"autocast", {}}, at::kBFloat16});
  for (const char* workload : {"probe-experts", "gpt-exact-experts"}) {
    for (const int world : {2, 3, 4}) all.push_back({"ep", workload, world});
    all.push_back({"ep", workload, 4, {"grid", {}}, at::kFloat, "dp=2,ep=2"});
    all.push_back({"layout", workload, 4, {"zb_h1", {{"schedule", "zb-h1"}}}, at::kFloat, "ep=2,pp=2"});
    for (const char* mesh : {"ep=2,pp=2", "shard=2,ep=2"})
      all.push_back({"layout", workload, 4, {"experts", {{"poison", "on"}}}, at::kFloat, mesh});
  }
  return all;
}

// Returns cases of the strategy layout, which combines kinds of parallelism: on meshes of two axes, and on some of
// three axes with 8 ranks. Axes of three ranks divide sizes unevenly. scripts/parts/layouts runs more meshes.
std::vector<Case> laid_out() {
  std::vector<Case> all;
  const auto add = [&](const std::string& mesh, const std::vector<std::string>& workloads, const Variant& variant = {},
                       at::ScalarType dtype = at::kFloat) {
    for (const std::string& workload : workloads)
      all.push_back({"layout", workload, ranks_of(parse_mesh(mesh)), variant, dtype, mesh});
  };
  const Variant sequence{"sequence", {{"sequence", "on"}, {"chunks", "2"}}},
      gpipe{"gpipe", {{"schedule", "gpipe"}, {"poison", "on"}}},
      interleaved{"interleaved", {{"schedule", "interleaved"}, {"microbatches", "2"}}},
      zb_h1{"zb_h1", {{"schedule", "zb-h1"}, {"microbatches", "2"}, {"poison", "on"}}},
      zbv{"zbv", {{"schedule", "zbv"}, {"sync", "each"}}}, each{"each", {{"sync", "each"}, {"poison", "on"}}},
      kept{"kept", {{"reshard", "off"}, {"prefetch", "2"}}},
      narrow{"narrow", {{"gather", "bf16"}, {"reduce", "bf16"}, {"sync", "each"}}},
      ulysses{"ulysses", {{"kind", "ulysses"}}};
  const std::vector<std::string> models = {"gpt", "gpt-exact", "convnet"};
  add("pp=2,tp=2", {"gpt", "gpt-exact", "gpt-exact-llama", "convnet", "mnist-mlp"});
  for (const char* mesh : {"shard=2,pp=2", "shard=2,tp=2"}) add(mesh, models);
  add("pp=2,shard=2", {"gpt", "probe-tied", "probe-blocks"}, each);
  add("shard=2,pp=2", {"gpt"}, kept);
  add("shard=2,pp=2", {"gpt"}, narrow, at::kBFloat16);
  add("shard=2,pp=2", {"gpt"}, interleaved);
  add("shard=2,pp=2", {"gpt"}, zb_h1);
  add("pp=2,shard=2", {"gpt", "probe-tied"}, zbv);
  for (const char* mesh : {"pp=2,tp=2", "cp=2,pp=2"}) add(mesh, {"gpt"}, zb_h1);
  add("shard=3", {"probe-strided", "probe-frozen"}, each);
  add("cp=2,tp=2", {"gpt", "gpt-exact", "gpt-exact-llama", "probe-llama"}, sequence);
  add("cp=2,pp=2", {"gpt", "gpt-exact"}, interleaved);
  add("shard=2,cp=2", {"gpt", "gpt-exact"}, each);
  add("shard=2,cp=2", {"gpt"}, narrow, at::kBFloat16);
  add("cp=2,tp=2", {"probe-llama"}, ulysses);
  add("pp=2,tp=3", {"gpt"}, sequence);
  add("tp=2,pp=3", {"gpt-exact"}, gpipe);
  add("shard=3,tp=2", {"gpt-exact", "gpt-exact-llama"}, sequence);
  add("dp=2,pp=2,tp=2", {"gpt-exact"});
  add("shard=2,pp=2,tp=2", {"gpt"});
  add("cp=2,pp=2,tp=2", {"gpt-exact"});
  for (const char* mesh : {"dp=2,tp=2", "dp=2,pp=2", "shard=2,tp=2", "dp=2,cp=2", "cp=2,tp=2", "dp=2,shard=2,tp=2",
                           "dp=2,pp=2,tp=2", "shard=2,pp=2,tp=2"})
    all.push_back({"layout", "gpt", ranks_of(parse_mesh(mesh)), {"recomputed", {}}, at::kBFloat16, mesh, 1});
  all.push_back({"layout", "probe-experts", 4, {"recomputed", {}}, at::kBFloat16, "dp=2,ep=2", 1});
  return all;
}

// Returns the message of a strategy that cannot divide the workload's model among the ranks of the mesh; empty if it
// can.
std::string refusal_of(const Case& one, const std::string& mesh) {
  const MeshShape shape = parse_mesh(mesh);
  const int ranks = size_of(shape, "tp"), stages = size_of(shape, "pp");
  const bool cuts = ranks > 1 || size_of(shape, "cp") > 1;
  if (!cuts && stages == 1 && size_of(shape, "ep") == 1) return "";
  const auto workload = workload_registry().at(one.workload);
  const auto model = workload.make({.model = workload.models.for_checks})->model(1);
  if (!workload.probe && std::ssize(model->blocks()) < stages) return "too few";
  if (!cuts && size_of(shape, "ep") == 1) return "";
  const bool experts = !model->expert_plan(1).cuts.empty();
  if (!cuts) return experts ? "" : "no experts";
  if (experts) return "with experts";
  if (ranks > 1 && model->tensor_plan(ranks).cuts.empty()) return "no layers";
  return size_of(shape, "cp") > 1 && model->sequence_plan().tokens == 0 ? "no sequence" : "";
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const std::string variant = info.param.variant.name.empty() ? "" : "_" + info.param.variant.name;
  std::string name = info.param.strategy + variant + "_" + info.param.workload + "_" +
                     (info.param.mesh.empty() ? std::to_string(info.param.world) : info.param.mesh);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

// Returns a check result's status, error and bound, e.g. "passed 3.1e-15 1e-12". scripts/studies/conformance-report
// reads this text from GoogleTest's JSON.
std::string recorded(const CheckRow& row) {
  std::ostringstream text;
  text << row.status;
  if (row.error) text << ' ' << *row.error;
  if (row.bound) text << ' ' << *row.bound;
  return text.str();
}

std::string message_of(const CheckRow& row) {
  return row.name + ": " + row.compared + "; " + row.detail + (row.likely.empty() ? "" : "; likely: " + row.likely);
}

class Conformance : public testing::TestWithParam<Case> {};

TEST_P(Conformance, AStrategyFailsNoCheckOnAWorkloadAndIsRefusedOnlyForTheExpectedReason) {
  RecordProperty("case", GetParam().strategy + (GetParam().variant.name.empty() ? "" : "+") + GetParam().variant.name +
                             " " + GetParam().workload + " " + std::to_string(GetParam().world));
  const StrategyInfo& strategy = strategy_registry().at(GetParam().strategy);
  const std::string mesh = GetParam().mesh.empty() ? mesh_of(strategy, GetParam().world) : GetParam().mesh;
  const auto rows = check_in_threads({.strategy = strategy,
                                      .workload = workload_registry().at(GetParam().workload),
                                      .world = GetParam().world,
                                      .dtype = GetParam().dtype,
                                      .params = GetParam().variant.params,
                                      .long_form = true,
                                      .mesh = mesh,
                                      .recompute = GetParam().recompute});
  size_t passed = 0;
  for (const auto& row : rows) {
    EXPECT_NE(row.status, CheckStatus::failed) << message_of(row);
    RecordProperty("check " + row.name, recorded(row));
    passed += row.status == CheckStatus::passed;
  }
  const bool skipped = rows.size() == 1 && rows[0].status == CheckStatus::skipped;
  const bool varies = GetParam().workload == "probe-branch" || GetParam().workload == "probe-optional";
  if (skipped && varies && rows[0].detail.find("different parameters") != std::string::npos) return;
  if (const std::string due = refusal_of(GetParam(), mesh); !due.empty()) {
    EXPECT_TRUE(std::ranges::any_of(rows, [&](const CheckRow& row) {
      return row.status == CheckStatus::skipped && row.detail.find(due) != std::string::npos;
    }));
  } else if (skipped) {
    EXPECT_TRUE(varies || rows[0].detail.find("find_unused") != std::string::npos) << message_of(rows[0]);
  } else {
    EXPECT_GE(passed, GetParam().workload == "probe-unused" ? 1U : 12U) << "too few checks ran";
  }
}

// Odd, because many lists alternate between two world sizes: with an even number, a share would have only one of them.
constexpr int shares = 19;
INSTANTIATE_TEST_SUITE_P(Registered, Conformance, testing::ValuesIn(drawn(cases(), shares)), name_of);
INSTANTIATE_TEST_SUITE_P(Autocast, Conformance, testing::ValuesIn(drawn(in_bfloat16(), shares)), name_of);
INSTANTIATE_TEST_SUITE_P(Variants, Conformance, testing::ValuesIn(drawn(variants(), shares)), name_of);
INSTANTIATE_TEST_SUITE_P(Parts, Conformance, testing::ValuesIn(drawn(in_parts(), shares)), name_of);
INSTANTIATE_TEST_SUITE_P(Replicated, Conformance, testing::ValuesIn(drawn(replicated_pipelines(), shares)), name_of);
INSTANTIATE_TEST_SUITE_P(Divided, Conformance, testing::ValuesIn(drawn(divided(), shares)), name_of);
INSTANTIATE_TEST_SUITE_P(Recomputing, Conformance, testing::ValuesIn(drawn(recomputing(), shares)), name_of);
INSTANTIATE_TEST_SUITE_P(Tokens, Conformance, testing::ValuesIn(drawn(in_tokens(), shares)), name_of);
INSTANTIATE_TEST_SUITE_P(Experts, Conformance, testing::ValuesIn(drawn(with_experts(), shares)), name_of);
INSTANTIATE_TEST_SUITE_P(LaidOut, Conformance, testing::ValuesIn(drawn(laid_out(), shares)), name_of);
INSTANTIATE_TEST_SUITE_P(Sharded, Conformance, testing::ValuesIn(drawn_sharded()), name_of);

// Compares the chunks into which dp cuts a batch with the chunk sizes in the DataParallel tutorials, for the tutorials'
// numbers of devices. With 8 devices, a batch of 10 samples leaves three replicas without samples.
class BatchChunks : public testing::TestWithParam<std::tuple<std::string, std::string, int>> {};

TEST_P(BatchChunks, OfDpReplicasHaveTheSizesInTheDataParallelTutorials) {
  const auto& [name, link, world] = GetParam();
  const auto params =
      link.empty() ? std::map<std::string, std::string>{} : std::map<std::string, std::string>{{"link", link}};
  const auto rows = check_in_threads({.strategy = strategy_registry().at(name),
                                      .workload = workload_registry().at("probe-mlp-sgd"),
                                      .world = world,
                                      .params = params,
                                      .filter = "chunk-tables"});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].name, "chunk-tables");
  EXPECT_EQ(rows[0].status, CheckStatus::passed) << message_of(rows[0]);
}

std::string name_of_pieces(const testing::TestParamInfo<BatchChunks::ParamType>& info) {
  const auto& [name, link, world] = info.param;
  return (name == "dp" ? "dp_" + link : "dp_upstream") + "_" + std::to_string(world);
}

const auto worlds_of_the_tutorials = testing::Values(1, 2, 3, 4, 8);
INSTANTIATE_TEST_SUITE_P(Dp, BatchChunks,
                         testing::Combine(testing::Values("dp"), testing::Values("auto", "plain"),
                                          worlds_of_the_tutorials),
                         name_of_pieces);
INSTANTIATE_TEST_SUITE_P(DpUpstream, BatchChunks,
                         testing::Combine(testing::Values("dp-upstream"), testing::Values(""), worlds_of_the_tutorials),
                         name_of_pieces);

// Checks ddp on a user's own model that has unused parameters but does not declare them.
class UserModel : public testing::TestWithParam<const char*> {
 protected:
  static std::vector<CheckRow> checked(const std::map<std::string, std::string>& params) {
    WorkloadInfo own = workload_registry().at(GetParam());
    own.probe = false;
    const StrategyInfo& ddp = strategy_registry().at("ddp");
    return check_in_threads(
        {.strategy = ddp, .workload = own, .params = params, .timeout = std::chrono::milliseconds(1500)});
  }
};

TEST_P(UserModel, WithUnusedParametersPassesEveryCheckOfDdp) {
  size_t passed = 0;
  for (const auto& row : checked({})) {
    EXPECT_NE(row.status, CheckStatus::failed) << message_of(row);
    passed += row.status == CheckStatus::passed;
  }
  EXPECT_GE(passed, 20U);
}

TEST_P(UserModel, WithUnusedParametersIsRejectedByDdpIfFindUnusedIsOff) {
  const auto rows = checked({{"find_unused", "off"}});
  for (const auto& row : rows) EXPECT_NE(row.status, CheckStatus::failed) << message_of(row);
  const auto refusal = std::ranges::find(rows, "unused-parameters", &CheckRow::name);
  ASSERT_NE(refusal, rows.end());
  // For the model with a branch, the check `unused-parameters` is skipped, because ddp would hang in the check.
  const bool hangs = std::string(GetParam()) == "probe-branch";
  EXPECT_EQ(refusal->status, hangs ? CheckStatus::skipped : CheckStatus::passed) << message_of(*refusal);
  EXPECT_EQ(refusal->detail.find("would hang") != std::string::npos, hangs) << message_of(*refusal);
}

INSTANTIATE_TEST_SUITE_P(Registered, UserModel, testing::Values("probe-unused", "probe-branch"), [](const auto& one) {
  return std::string(one.param) == "probe-unused" ? "Unused" : "Branch";
});

// On a GPU, no other check judges the gradients of gpt in float32 or bfloat16.
TEST(CheckOfGradientAccuracy, PassesForGptWithoutExpertsAndIsSkippedForModelsThatAreNotSmooth) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const auto& [workload, status] : {std::pair{"gpt", CheckStatus::passed},
                                           {"probe-llama", CheckStatus::passed},
                                           {"probe-experts", CheckStatus::skipped},
                                           {"gpt-exact", CheckStatus::skipped}}) {
      const auto rows = check_in_threads({.strategy = strategy_registry().at("ddp"),
                                          .workload = workload_registry().at(workload),
                                          .dtype = dtype,
                                          .filter = "gradient-accuracy"});
      ASSERT_EQ(rows.size(), 1U) << workload;
      EXPECT_EQ(rows[0].status, status) << workload << ": " << message_of(rows[0]);
    }
}

// local-sgd averages parameters every few steps, counted from the start of training. A scenario's first step may be a
// later one, drawn by the seed.
TEST(CheckOfCollectiveBytes, PassesForLocalSgdInScenariosWithALateFirstStep) {
  for (const uint64_t seed : {1, 2, 3, 65416}) {
    const auto rows = check_in_threads({.strategy = strategy_registry().at("local-sgd"),
                                        .workload = workload_registry().at("probe-exact"),
                                        .world = 2,
                                        .seed = seed,
                                        .long_form = true,
                                        .filter = "gradient-later|collective-bytes"});
    EXPECT_FALSE(rows.empty());
    for (const CheckRow& row : rows) EXPECT_EQ(row.status, CheckStatus::passed) << seed << ": " << message_of(row);
  }
}

// Runs fsdp with the parameters `run_with`, but gives the check live-parameters the byte count of fsdp's formula for
// the parameters `formula_of`, plus `more` bytes. Returns the check's result.
CheckRow live_parameters_row(const ParamValues& run_with, const ParamValues& formula_of, int64_t more,
                             const std::string& mesh = {}) {
  StrategyInfo fsdp = strategy_registry().at("fsdp");
  const StrategyInfo& own = strategy_registry().at("fsdp");
  fsdp.live_parameters = [&, more](const TrafficQuery& query) -> std::optional<int64_t> {
    ParamValues values = formula_of;
    values["poison"] = query.params.text("poison");
    const Params params(own.params, values, own.name);
    const auto bytes = own.live_parameters({.model = query.model,
                                            .dtype = query.dtype,
                                            .params = params,
                                            .mesh = query.mesh,
                                            .accumulate = query.accumulate});
    return bytes ? std::optional(*bytes + more) : std::nullopt;
  };
  const auto rows = check_in_threads({.strategy = fsdp,
                                      .workload = workload_registry().at("gpt"),
                                      .world = mesh.empty() ? 3 : ranks_of(parse_mesh(mesh)),
                                      .params = run_with,
                                      .filter = "live-parameters",
                                      .mesh = mesh});
  return rows.size() == 1 ? rows[0] : CheckRow{.name = "live-parameters", .status = CheckStatus::skipped};
}

TEST(CheckOfFsdpsGatheredBytes, PassesForTheBytesOfTheFormulaAndFailsForOneByteLess) {
  for (const ParamValues& params : std::vector<ParamValues>{{{"prefetch", "0"}},
                                                            {{"prefetch", "1"}},
                                                            {{"prefetch", "2"}},
                                                            {{"prefetch", "1"}, {"unit", "2"}},
                                                            {{"prefetch", "1"}, {"reshard", "off"}}}) {
    const CheckRow exact = live_parameters_row(params, params, 0), less = live_parameters_row(params, params, -1);
    EXPECT_EQ(exact.status, CheckStatus::passed) << message_of(exact);
    EXPECT_EQ(less.status, CheckStatus::failed) << message_of(less);
  }
}

TEST(CheckOfFsdpsGatheredBytes, CountsTheLargerShardsThatRanksKeepForTheBackwardPassIfTheyReshardInGroups) {
  for (const char* prefetch : {"0", "1", "2"})
    for (const auto& [mesh, reshard] :
         {std::pair{"dp=2,shard=2", "shard"}, {"shard=2", "shard"}, {"shard=4", "2"}, {"dp=2,shard=4", "2"}}) {
      const ParamValues params = {{"reshard", reshard}, {"prefetch", prefetch}};
      const CheckRow exact = live_parameters_row(params, params, 0, mesh);
      const CheckRow less = live_parameters_row(params, params, -1, mesh);
      EXPECT_EQ(exact.status, CheckStatus::passed) << mesh << ": " << message_of(exact);
      EXPECT_EQ(less.status, CheckStatus::failed) << mesh << ": " << message_of(less);
    }
}

TEST(CheckOfFsdpsGatheredBytes, FailsIfUnitsAreGatheredFartherAheadThanTheParameterPrefetchAllows) {
  for (const auto& [run_with, limit] : {std::pair{"1", "0"}, {"2", "1"}}) {
    const CheckRow row = live_parameters_row({{"prefetch", run_with}}, {{"prefetch", limit}}, 0);
    EXPECT_EQ(row.status, CheckStatus::failed);
    EXPECT_NE(row.likely.find("ahead"), std::string::npos) << message_of(row);
  }
}

// Checks that the traffic formula of `layout` covers meshes of several axes: the check must have compared, not skipped.
struct Meshed {
  std::string mesh, workload = "gpt";
  ParamValues params = {};
  at::ScalarType dtype = at::kFloat;
  int64_t recompute = 0;
};

class CollectiveBytesOfLayouts : public testing::TestWithParam<Meshed> {};

TEST_P(CollectiveBytesOfLayouts, EqualTheSumOfTheFormulasOfTheAxes) {
  const auto rows = check_in_threads({.strategy = strategy_registry().at("layout"),
                                      .workload = workload_registry().at(GetParam().workload),
                                      .world = ranks_of(parse_mesh(GetParam().mesh)),
                                      .dtype = GetParam().dtype,
                                      .params = GetParam().params,
                                      .filter = "collective-bytes",
                                      .mesh = GetParam().mesh,
                                      .recompute = GetParam().recompute});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].status, CheckStatus::passed) << message_of(rows[0]);
}

// Sizes of "gpt" do not divide evenly among ranks; its embedding is tied, so it is shared by stages.
const std::vector<Meshed> meshes_with_formula = {
    {"pp=2,tp=2"},
    {"pp=2,tp=3", "gpt", {{"sequence", "on"}, {"chunks", "2"}}},
    {"pp=2,tp=2", "probe-llama", {{"schedule", "zb-h1"}, {"microbatches", "2"}}},
    {"cp=2,tp=2"},
    {"cp=2,tp=2", "gpt-exact", {{"sequence", "on"}}},
    {"cp=3,tp=2", "probe-llama", {{"sequence", "on"}}},
    {"cp=2,tp=3", "probe-llama", {{"zigzag", "off"}}},
    {"cp=2,tp=2", "gpt-exact-llama", {{"kind", "ulysses"}}},
    {"cp=2,pp=2"},
    {"cp=2,pp=2", "gpt", {{"schedule", "interleaved"}, {"microbatches", "2"}}},
    {"shard=2,tp=2", "gpt", {{"sequence", "on"}, {"reduce", "bf16"}}},
    {"shard=2,cp=2", "gpt", {{"sync", "each"}}},
    {"shard=2,pp=2", "gpt", {{"unit", "2"}}},
    {"shard=2,pp=2", "gpt", {{"reshard", "off"}, {"schedule", "zbv"}}},
    {"shard=2,pp=2", "probe-llama", {{"schedule", "gpipe"}, {"find_unused", "on"}, {"sync", "each"}}},
    {"ep=2,pp=2", "probe-experts"},
    {"shard=2,ep=2", "gpt-exact-experts"},
    {"dp=2,tp=2"},
    {"dp=2,pp=2,tp=2"},
    {"dp=2,shard=2,tp=2"},
    {"dp=2,shard=2", "gpt", {{"reduce", "bf16"}, {"sync", "each"}}},
    {"cp=2,pp=2,tp=2", "gpt-exact"},
    {"shard=2,pp=2,tp=2", "gpt", {{"sequence", "on"}}},
    {"dp=2,pp=2", "convnet", {{"schedule", "gpipe"}}, at::kBFloat16},
    {"cp=2,tp=2", "probe-llama", {{"sequence", "on"}}, at::kBFloat16, 1},
    {"cp=2,pp=2", "gpt", {{"microbatches", "2"}}, at::kBFloat16, 2},
    {"cp=2,pp=2", "probe-llama", {{"kind", "ulysses"}}, at::kBFloat16, 1},
    {"cp=2,tp=2", "gpt-exact-llama", {{"kind", "ulysses"}}, at::kBFloat16, 1},
    {"ep=2,pp=2", "probe-experts", {{"schedule", "zb-h1"}}, at::kBFloat16, 1},
    {"shard=2,ep=2", "gpt-exact-experts", {{"unit", "3"}}, at::kBFloat16, 2},
    {"shard=2,tp=2", "gpt", {{"unit", "3"}}, at::kBFloat16, 2},
    {"shard=2,pp=2,tp=2", "gpt", {{"sequence", "on"}, {"unit", "2"}}, at::kFloat, 1}};

INSTANTIATE_TEST_SUITE_P(Meshes, CollectiveBytesOfLayouts, testing::ValuesIn(drawn(meshes_with_formula, 3)),
                         [](const auto& one) {
                           std::string name = one.param.mesh + "_" + one.param.workload;
                           for (const auto& [key, value] : one.param.params) name += "_" + key + "_" + value;
                           if (one.param.dtype == at::kBFloat16) name += "_autocast";
                           if (one.param.recompute > 0) name += "_recompute_" + std::to_string(one.param.recompute);
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

TEST(ConformanceCases, DrawnForARunAlwaysIncludeZero2AndFsdpInWorlds1To5) {
  const std::vector<Case> all = sharded(), some = drawn_sharded();
  std::set<std::pair<std::string, int>> found;
  for (const Case& one : some) found.emplace(one.strategy, one.world);
  EXPECT_TRUE(some.size() == all.size() || some.size() <= all.size() / 12) << some.size() << " of " << all.size();
  for (const char* strategy : {"zero2", "fsdp"})
    for (const int world : {1, 2, 3, 4, 5}) EXPECT_TRUE(found.contains({strategy, world})) << strategy << " " << world;
}

TEST(ScenarioUnwatched, TakesAllStepsOnSmallThoroughProbesHoweverSlowTheOracleIs) {
  const Scenario unwatched{.name = "unwatched", .gradient_check = "", .steps = 64, .samples_per_rank = 4};
  const auto steps = [&](const CaseTraits& traits, double sample_s) {
    return affordable_shape(unwatched, traits, sample_s, short_unwatched_s).steps;
  };
  constexpr double slow_s = 0.01, fast_s = 1e-6;
  EXPECT_EQ(steps({.probe = true, .costly = true}, slow_s), 64);
  EXPECT_EQ(steps({.probe = true}, slow_s), 16);
  EXPECT_EQ(steps({.probe = true, .large = true, .costly = true}, slow_s), 2);
  EXPECT_EQ(steps({.costly = true}, slow_s), 2);
  EXPECT_EQ(steps({}, fast_s), 64);
}

TEST(ShareOfADay, HasEachValueOnceInAsManyDaysAsThereAreShares) {
  for (const int size : {1, 3, 50}) {
    std::vector<int> all(static_cast<size_t>(size)), found;
    std::ranges::generate(all, [next = 0]() mutable { return next++; });
    const uint64_t days = std::min<uint64_t>(all.size(), 20);
    for (uint64_t day = 7 * days; day < 8 * days; ++day) {
      const auto share = share_of_day(all, 20, day);
      EXPECT_FALSE(share.empty()) << "day " << day;
      std::ranges::copy(share, std::back_inserter(found));
    }
    std::ranges::sort(found);
    EXPECT_EQ(found, all);
  }
}

TEST(ShareOfADay, IsNotTheSameQuarterOnEveryFourthDay) {
  std::set<int> found;
  for (const uint64_t day : {4U, 8U, 12U, 16U}) found.insert(share_of_day(std::vector{0, 1, 2, 3}, 4, day).at(0));
  EXPECT_EQ(found.size(), 4U);
}

TEST(ConformanceCases, HaveAtLeastFiveStrategiesAndFourCasesPerWorkload) {
  EXPECT_GE(strategy_registry().all().size(), 5U);
  EXPECT_GE(cases().size(), workload_registry().all().size() * 4);
}

}  // namespace
}  // namespace dpbench
