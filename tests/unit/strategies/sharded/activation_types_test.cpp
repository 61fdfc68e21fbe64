// Tests the types of activations (strategies/api/parts/activation.h) in steps of tensor, context, expert and pipeline
// parallelism. Correct strategies have no tensor of unknown type and no wrong pair (an operation on tensors of types
// that it cannot take). Strategies with a wrong exchange have a wrong pair.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <algorithm>

#include "harness/conform/scenario/make_workload.h"
#include "strategies/api/parts/activation.h"
#include "strategies/layout/layout.h"
#include "tests/support/contains.h"
#include "tests/unit/strategies/sharded/one_device.h"

namespace dpbench {
namespace {

using namespace one_device;

struct Found {
  std::string mistake;
  int64_t typed = 0, untyped = 0;
};

using Make = std::function<std::unique_ptr<Strategy>(const Setup&)>;

// Takes two steps on a mesh. Returns the first wrong pair of the lowest rank that has one, the least number of inputs
// of a rank's collectives that had a known type, and the number of all ranks' inputs of unknown type. make: makes a
// wrong strategy, which may throw after the wrong pair; without it, the registered strategy is used and must not throw.
Found found_by_types(const Setting& one, at::ScalarType dtype, int64_t recompute = 0, const Make& make = {}) {
  const auto workload =
      make_workload(workload_registry().at(one.workload), {.model = one.model, .recompute = recompute});
  const MeshShape shape = parse_mesh(one.mesh);
  const int ranks = ranks_of(shape);
  std::vector<Found> by_rank(static_cast<size_t>(ranks));
  expect_no_errors(on_ranks(ranks, [&](Rank& me) {
    const StrategyInfo& info = strategy_registry().at(one.strategy);
    const auto strategy = (make ? make : Make(info.make))({.workload = *workload,
                                                           .devices = {at::kCPU},
                                                           .mesh = me.mesh(one.mesh),
                                                           .init_seed = 3,
                                                           .step_seed = 4,
                                                           .dtype = dtype,
                                                           .params = Params(info.params, one.params, one.strategy),
                                                           .clip_norm = {}});
    TypeFindings types;
    try {
      for (int64_t step = 0; step < 2; ++step) {
        Phases phases;
        strategy->step(step, micro_batches(*workload, step, data_place(shape, ranks, me.rank).replica), phases);
      }
    } catch (const std::exception&) {
      if (!make) throw;
    }
    by_rank[static_cast<size_t>(me.rank)] = {types.mistake, types.typed, types.untyped};
  }));
  Found found = by_rank[0];
  for (size_t rank = 1; rank < by_rank.size(); ++rank) {
    if (found.mistake.empty()) found.mistake = by_rank[rank].mistake;
    found.typed = std::min(found.typed, by_rank[rank].typed);
    found.untyped += by_rank[rank].untyped;
  }
  return found;
}

class TypedSteps : public testing::TestWithParam<Setting> {};

TEST_P(TypedSteps, OfACorrectStrategyHaveNoWrongPairAndNoCollectiveOfATensorOfUnknownType) {
  const int64_t most = GetParam().workload == "probe-mlp" ? 0 : 1;  // probe-mlp has no blocks to recompute
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16})
    for (int64_t recompute = 0; recompute <= most; ++recompute) {
      const Found found = found_by_types(GetParam(), dtype, recompute);
      EXPECT_EQ(found.mistake, "") << dtype << " " << recompute;
      EXPECT_EQ(found.untyped, 0) << dtype << " " << recompute;
      EXPECT_GT(found.typed, 0) << dtype << " " << recompute;
    }
}

std::vector<Setting> typed_settings() {
  std::vector<Setting> all;
  for (const char* sequence : {"off", "on"})
    for (const char* chunks : {"1", "2"})
      for (const char* model : {"tiny", "tiny-llama", "tiny,kv_heads=1"})
        for (const char* mesh : {"tp=2", "tp=3"})
          all.push_back({"tp", mesh, "gpt", model, {{"sequence", sequence}, {"chunks", chunks}, {"verify", "on"}}});
  for (const char* chunks : {"1", "2"})
    for (const char* workload : {"mnist-mlp", "convnet", "random-linear", "probe-mlp"})
      all.push_back({"tp", "tp=2", workload, "", {{"chunks", chunks}}});
  for (const char* workload : {"gpt-exact", "gpt-exact-llama"}) all.push_back({"tp", "tp=3", workload});
  for (const char* kind : {"ring", "ulysses"})
    for (const char* model : {"tiny", "tiny-llama"}) all.push_back({"cp", "cp=2", "gpt", model, {{"kind", kind}}});
  all.push_back({"ep", "ep=2", "gpt", "tiny-experts"});
  all.push_back({"layout", "cp=2,tp=2", "gpt", "tiny", {{"sequence", "on"}}});
  all.push_back({"layout", "shard=2,tp=2", "gpt", "tiny"});
  for (const char* sequence : {"off", "on"})
    all.push_back({"layout", "pp=2,tp=2", "gpt", "tiny,layers=3", {{"sequence", sequence}}});
  all.push_back({"layout", "cp=2,pp=2", "gpt", "tiny,layers=3"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Types, TypedSteps, testing::ValuesIn(typed_settings()),
                         [](const auto& one) { return text_of(one.param); });

enum class Mistake {
  none,
  enter_forgotten,
  enter_forgotten_in_layer_2,
  entered_twice,
  sum_of_a_sum,
  sum_of_an_input,
  bias_before_the_sum,
  bias_before_the_sum_on_rank_1,
  gelu_before_the_sum,
  pieces_gathered_without_their_sum,
  sequence_cut_by_the_exchange_alone,
  loss_not_summed,
};

class WrongExchange : public tensor::Exchange {
 public:
  WrongExchange(const Axis& axis, const tensor::Options& options, int64_t tokens, Phases* phases, Mistake mistake,
                const Model& model)
      : Exchange(axis, options, tokens, phases), mistake_(mistake), model_(model) {}

  at::Tensor enter(const at::Tensor& x) const override {
    if (mistake_ == Mistake::enter_forgotten) return x;
    if (mistake_ == Mistake::enter_forgotten_in_layer_2 && block_ == "model.layers.2") return x;
    if (mistake_ == Mistake::pieces_gathered_without_their_sum) return varying_to_invariant(x, axis_, tokens_);
    const at::Tensor whole = Exchange::enter(x);
    return mistake_ == Mistake::entered_twice ? invariant_to_replicate(whole, axis_) : whole;
  }

  at::Tensor leave(const at::Tensor& x, const Product& product) const override {
    const auto of_block = [&](const std::string& name) { return model_.named_parameters()[block_ + name]; };
    if (block_ != "model.layers.0") return Exchange::leave(x, product);
    return Exchange::leave(x, [&](const at::Tensor& part) {
      const at::Tensor mine = product(part);
      if (mistake_ == Mistake::sum_of_a_sum) return Exchange::leave(mine, [](const at::Tensor& y) { return y; });
      if (mistake_ == Mistake::sum_of_an_input) return Exchange::enter(of_block(".input_layernorm.weight")) * 1;
      const bool biased = mistake_ == Mistake::bias_before_the_sum ||
                          (mistake_ == Mistake::bias_before_the_sum_on_rank_1 && axis_.rank == 1);
      if (biased) return mine + of_block(".self_attn.o_proj.bias");
      return mistake_ == Mistake::gelu_before_the_sum ? at::gelu(mine) : mine;
    });
  }

  at::Tensor total(const at::Tensor& x) const override {
    return mistake_ == Mistake::loss_not_summed ? x : Exchange::total(x);
  }

 private:
  Mistake mistake_;
  const Model& model_;
};

class WrongTensorParallel : public layout::Layout {
 public:
  WrongTensorParallel(const Setup& setup, Mistake mistake)
      : Layout(setup, {.name = "tp", .tensor = tensor::options_of(setup.params)}), mistake_(mistake) {}

 protected:
  std::shared_ptr<const TensorSplit> make_exchange(const tensor::Options& options, int64_t tokens,
                                                   Phases* phases) const override {
    tensor::Options changed = options;
    if (mistake_ == Mistake::sequence_cut_by_the_exchange_alone) changed.sequence = true;
    return std::make_shared<WrongExchange>(axes_.tp, changed, tokens, phases, mistake_, *replica_.shared_model());
  }

 private:
  Mistake mistake_;
};

std::string mistake_of(Mistake mistake, const Setting& one) {
  return found_by_types(one, at::kFloat, 0,
                        [&](const Setup& setup) { return std::make_unique<WrongTensorParallel>(setup, mistake); })
      .mistake;
}

std::string mistake_of(Mistake mistake, const Given& params = {}, const std::string& model = "tiny") {
  return mistake_of(mistake, Setting{"tp", "tp=2", "gpt", model, params});
}

TEST(WrongTypes, InAnExchangeAreReportedWithTheOperationTheBlockAndTheRemedy) {
  const Given sequence = {{"sequence", "on"}};
  const std::string block = "model.layers.0";
  EXPECT_EQ(mistake_of(Mistake::none), "");
  EXPECT_EQ(mistake_of(Mistake::none, sequence), "");
  for (const char* model : {"tiny", "tiny-llama"}) {
    expect_contains(mistake_of(Mistake::enter_forgotten, {}, model),
                    {block, "invariant (I)", "invariant_to_replicate"});
    expect_contains(mistake_of(Mistake::enter_forgotten, sequence, model), {block, "varying (V)", "gather"});
    expect_contains(mistake_of(Mistake::entered_twice, {}, model), {"invariant_to_replicate", block, "replicated (R)"});
    expect_contains(mistake_of(Mistake::sum_of_a_sum, {}, model), {"partial_to_invariant", block, "invariant (I)"});
    expect_contains(mistake_of(Mistake::sum_of_an_input, {}, model), {"partial_to_invariant", block, "replicated (R)"});
    expect_contains(mistake_of(Mistake::gelu_before_the_sum, {}, model), {"gelu", block, "partial (P)", "reduce"});
    expect_contains(mistake_of(Mistake::pieces_gathered_without_their_sum, sequence, model),
                    {block, "invariant (I)", "invariant_to_replicate"});
    expect_contains(mistake_of(Mistake::sequence_cut_by_the_exchange_alone, {}, model), {"invariant (I)"});
  }
  expect_contains(mistake_of(Mistake::sequence_cut_by_the_exchange_alone, {}, "tiny-llama"), {"rms_norm", block});
  expect_contains(mistake_of(Mistake::bias_before_the_sum), {"add", block, "invariant (I)"});
  expect_contains(mistake_of(Mistake::bias_before_the_sum_on_rank_1), {"add", block, "invariant (I)"});
  expect_contains(mistake_of(Mistake::bias_before_the_sum, sequence), {"add", block, "partial (P)", "reduce"});
  expect_contains(mistake_of(Mistake::loss_not_summed), {"the loss", "invariant (I)", "varying (V)"});
}

// The second stage begins with the layer model.layers.2.
TEST(WrongTypes, AreReportedInTheFirstBlockOfALaterStageOfAPipeline) {
  const Setting pipeline = {"layout", "pp=2,tp=2", "gpt", "tiny,layers=3"};
  EXPECT_EQ(mistake_of(Mistake::none, pipeline), "");
  expect_contains(mistake_of(Mistake::enter_forgotten_in_layer_2, pipeline),
                  {"model.layers.2", "invariant (I)", "invariant_to_replicate"});
}

}  // namespace
}  // namespace dpbench
