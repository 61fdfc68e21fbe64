// Tests the strategy tp (tensor parallelism): its steps compared with the same steps on one device, its collectives,
// and its errors.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "harness/conform/evidence/watching_backends.h"
#include "harness/conform/scenario/make_workload.h"
#include "strategies/tensor/exchange.h"
#include "tests/support/contains.h"
#include "tests/unit/strategies/sharded/one_device.h"

namespace dpbench {
namespace {

using namespace one_device;

class TensorParallelSteps : public testing::TestWithParam<Setting> {};

TEST_P(TensorParallelSteps, EqualThoseOfOneDevice) { expect_steps_of_one_device(GetParam()); }

std::vector<Setting> settings() {
  std::vector<Setting> all;
  // Most numbers of heads, MLP widths, vocabularies and sequence lengths of these models are not multiples of the
  // number of ranks.
  for (const Given& params : std::vector<Given>{{{"verify", "on"}},
                                                {{"chunks", "2"}},
                                                {{"sequence", "on"}, {"verify", "on"}},
                                                {{"sequence", "on"}, {"chunks", "2"}}}) {
    for (const char* workload : {"gpt-exact", "gpt-exact-llama"})
      for (const char* mesh : {"tp=2", "tp=3"}) all.push_back({"tp", mesh, workload, "", params});
    all.push_back({"tp", "tp=4", "gpt-exact", "heads=6", params});
    for (const char* mesh : {"tp=2", "tp=3"}) all.push_back({"tp", mesh, "gpt", "tiny", params});
    // With 3 or more ranks, each rank has all key and value heads of this model.
    for (const char* mesh : {"tp=2", "tp=3", "tp=4"}) all.push_back({"tp", mesh, "gpt", "tiny-llama", params});
    // This model has biases and a single key and value head, which both ranks store whole.
    all.push_back({"tp", "tp=2", "gpt", "tiny,kv_heads=1", params});
    all.push_back({"tp", "dp=2,tp=2", "gpt", "tiny", params, 0.01});
  }
  for (const char* workload : {"mnist-mlp", "convnet", "random-linear", "probe-mlp"})
    for (const char* mesh : {"tp=2", "tp=3", "tp=4"}) all.push_back({"tp", mesh, workload});
  all.push_back({"tp", "dp=2,tp=3", "convnet"});
  // With scale 2, the layer before convnet's dropout is cut by its outputs, so each rank masks its own features.
  for (const char* mesh : {"tp=2", "tp=3"})
    all.push_back({.strategy = "tp", .mesh = mesh, .workload = "convnet", .limit = 1e-8, .scale = 2});
  all.push_back({"tp", "tp=3", "gpt", "tiny-llama", {}, 0.01});
  return all;
}

INSTANTIATE_TEST_SUITE_P(TensorParallel, TensorParallelSteps, testing::ValuesIn(settings()),
                         [](const auto& one) { return text_of(one.param); });

// A workload with a loss that gives each output its own weight.
class Weighted : public WrappedWorkload {
 public:
  using WrappedWorkload::WrappedWorkload;
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    const at::Tensor columns = at::arange(output.size(1), output.options());
    return (output * (target.unsqueeze(1).to(output.scalar_type()) * 1.7 + columns).cos()).mean();
  }
  at::Tensor split_loss(const at::Tensor& output, const at::Tensor& target, const ModelSplit&) const override {
    return loss(output, target);
  }
};

TEST(TensorParallel, GradientsEqualThoseOfOneDeviceIfTheLossHasADifferentWeightForEachOutput) {
  for (const std::string name : {"mnist-mlp", "convnet"}) {
    const auto inner = workload_registry().at(name).make({});
    const Weighted workload(*inner);
    expect_near(gradients_and_loss(workload, "ddp", "dp=1"), gradients_and_loss(workload, "tp", "tp=3"), 1e-12,
                name + ": gradient of");
  }
}

// Makes the strategy tp, which should refuse the model, the mesh or the parameter. Returns the error message of rank 0.
std::string refusal(const std::string& mesh, int ranks, const std::string& workload, const std::string& model,
                    const Given& params = {}) {
  const auto made = workload_registry().at(workload).make({.model = model});
  return on_ranks(ranks, [&](Rank& me) { made_on(me.mesh(mesh), "tp", *made, params); }).at(0);
}

TEST(TensorParallel, RefusesModelsItCannotShardWithTheReason) {
  expect_contains(refusal("tp=4", 4, "gpt", "tiny"), {"4 ranks", "3 attention heads"});
  expect_contains(refusal("tp=2", 2, "probe-many", ""), {"tp", "no layers"});
  expect_contains(refusal("tp=2", 2, "mnist-mlp", "", {{"sequence", "on"}}), {"tp.sequence=on", "no sequence"});
  expect_contains(refusal("tp=2", 2, "mnist-mlp", "", {{"chunks", "0"}}), {"tp.chunks=0", "1 or more"});
  expect_contains(refusal("tp=3", 3, "gpt", "tiny,mlp=2"), {"3 ranks", "2 features", "MLP"});
  expect_contains(refusal("tp=6", 6, "random-linear", ""), {"6 ranks", "5 features"});
}

TEST(TensorParallel, RefusesASequenceWithFewerTokensThanRanks) {
  const auto workload = gpt("tiny,seq=2");
  const auto errors = on_ranks(3, [&](Rank& me) {
    const auto strategy = made_on(me.mesh("tp=3"), "tp", *workload, {{"sequence", "on"}});
    Phases phases;
    const std::vector<Batch> micro = {workload->batch(at::arange(3))};
    strategy->step(0, micro, phases);
  });
  for (const std::string& error : errors) expect_contains(error, {"tp.sequence=on: ", "2 tokens", "3 ranks"});
}

struct Amount {
  int64_t bytes = 0, calls = 0;
  bool operator==(const Amount&) const = default;
};

void PrintTo(const Amount& one, std::ostream* out) { *out << one.bytes << " bytes in " << one.calls << " calls"; }

using Amounts = std::map<std::string, Amount>;  // by operation

// Takes two steps on two ranks, with micro-batches of these sizes. Returns rank 0's collectives of the second step.
Amounts amounts_of_a_step(const Workload& workload, const std::vector<int64_t>& micro, const Given& params,
                          at::ScalarType dtype = at::kDouble) {
  std::vector<Batch> batches;
  for (const int64_t samples : micro) batches.push_back(workload.batch(at::arange(samples)));
  Amounts amounts;
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto strategy = made_on(me.mesh("tp=2"), "tp", workload, params, dtype);
    Phases phases;
    strategy->step(0, batches, phases);
    me.recorder->start(false);
    strategy->step(1, batches, phases);
    const auto called = me.recorder->stop();
    if (me.rank != 0) return;
    for (const Collective& one : called) {
      Amount& amount = amounts[name_of(one.op)];
      amount.bytes += one.bytes, ++amount.calls;
    }
  }));
  return amounts;
}

TEST(TensorParallel, CallsFourAllreducesPerLayerOrWithSequenceOnFourAllGathersAndFourReduceScatters) {
  const int layers = 2, embedding = 1, head = 1, maximum_and_sum_of_the_loss = 2;
  const auto workload = gpt("tiny,padding=off");
  const auto plain = amounts_of_a_step(*workload, {4}, {});
  EXPECT_EQ(plain.at("allreduce").calls, 4 * layers + embedding + head + maximum_and_sum_of_the_loss);
  EXPECT_FALSE(plain.contains("allgather"));  // tp does not gather the logits in a training step
  const auto sequence = amounts_of_a_step(*workload, {4}, {{"sequence", "on"}});
  const int gradients_of_norms = 1;
  EXPECT_EQ(sequence.at("reduce_scatter").calls, 4 * layers + embedding + head);
  EXPECT_EQ(sequence.at("allgather").calls, 4 * layers + embedding + head);
  EXPECT_EQ(sequence.at("allreduce").calls, maximum_and_sum_of_the_loss + gradients_of_norms);
}

// tp.chunks=3 cuts the micro-batch of 3 samples into 3 parts, and that of 2 samples into 2.
TEST(TensorParallel, TheTrafficFormulaGivesTheBytesAndTheNumberOfCallsOfEachOperation) {
  const std::vector<int64_t> micro = {3, 2};
  const MeshShape mesh = {{"tp", 2}};
  const auto expect_as_counted = [&](const std::string& name, const std::string& size, const Given& given,
                                     at::ScalarType dtype = at::kDouble, int64_t recompute = 0) {
    const auto workload = make_workload(workload_registry().at(name), {.model = size, .recompute = recompute});
    const auto model = workload->model(3);
    const Params params(tensor::parameters(), given, "tp");
    const auto formula = strategy_registry().at("tp").traffic(
        {.model = *model, .dtype = dtype, .params = params, .mesh = mesh, .samples = 5, .micro = micro});
    Amounts due;
    for (const Traffic& one : formula.value()) {
      if (one.bytes == 0) continue;
      Amount& amount = due[one.op];
      amount.bytes += one.bytes, amount.calls += one.calls.value();
    }
    EXPECT_EQ(amounts_of_a_step(*workload, micro, given, dtype), due)
        << name << " " << size << " " << params.text("chunks") << " " << dtype << " " << recompute;
  };
  for (const char* chunks : {"1", "3"}) {
    for (const char* name : {"mnist-mlp", "convnet", "random-linear"})
      expect_as_counted(name, "", {{"chunks", chunks}});
    for (const char* size : {"tiny", "tiny,kv_heads=1"})
      for (const char* sequence : {"off", "on"})
        expect_as_counted("gpt", size, {{"chunks", chunks}, {"sequence", sequence}});
  }
  for (const auto& [dtype, recompute] : {std::pair{at::kBFloat16, 0}, {at::kFloat, 2}, {at::kBFloat16, 1}}) {
    for (const char* name : {"mnist-mlp", "convnet", "gpt-exact"})
      expect_as_counted(name, "", {{"chunks", "3"}}, dtype, recompute);
    for (const char* size : {"tiny", "tiny-llama"})
      for (const char* sequence : {"off", "on"})
        expect_as_counted("gpt", size, {{"chunks", "3"}, {"sequence", sequence}}, dtype, recompute);
  }
}

TEST(TensorParallel, NamesTheLayerWhoseCollectiveFailed) {
  // The collectives of a step, in order: 5 from the embedding to layer 1, 2 for the loss, and 5 from the head to layer
  // 0. The gather of the output follows.
  expect_contains(error_of_call("tp", "tp=2", 3), {"tp: ", "product", "model.layers.1", "is gone"});
  expect_contains(error_of_call("tp", "tp=2", 7), {"tp: ", "gradient", "lm_head", "is gone"});
  expect_contains(error_of_call("tp", "tp=2", 9), {"tp: ", "gradient", "model.layers.1", "is gone"});
  expect_contains(error_of_call("tp", "tp=2", 10), {"tp: ", "gradient", "model.layers.0", "is gone"});
  // With sequence parallelism, 10 collectives from the embedding to the head, 2 for the loss, and 10 from the head
  // back.
  const Given sequence = {{"sequence", "on"}};
  expect_contains(error_of_call("tp", "tp=2", 6, sequence), {"tp: ", "product", "model.layers.1", "is gone"});
  expect_contains(error_of_call("tp", "tp=2", 9, sequence), {"tp: ", "sequence", "lm_head", "is gone"});
  expect_contains(error_of_call("tp", "tp=2", 16, sequence), {"tp: ", "sequence", "model.layers.1", "is gone"});
  expect_contains(error_of_call("tp", "tp=2", 17, sequence), {"tp: ", "product", "model.layers.0", "is gone"});
}

TEST(TensorParallel, TheSettingVerifyNamesTheRankWhoseInputDiffers) {
  const auto errors = on_ranks(3, [&](Rank& me) {
    const Axis axis = me.mesh("tp=3").axis("tp");
    const at::Tensor x = at::full({2, 4}, me.rank == 2 ? 1.0 : 0.0).requires_grad_();
    const tensor::Exchange exchange(axis, {.verify = true}, 1, nullptr);
    exchange.begin_block("block");
    exchange.enter(x);
  });
  for (const std::string& error : errors)
    expect_contains(error, {"tp.verify: ", "input", " block", "rank 2", "rank 0"});
}

}  // namespace
}  // namespace dpbench
