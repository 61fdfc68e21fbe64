// Tests fsdp and zero2: how they cut parameters by rows and plan units, the bits of their results, and their memory.
// The conformance suite checks their gradients.
#include <map>
#include <set>

#include "harness/conform/evidence/live_memory.h"
#include "harness/conform/scenario/wrapped_workload.h"
#include "strategies/fsdp/options.h"
#include "strategies/fsdp/row_cut.h"
#include "strategies/fsdp/unit_plan.h"
#include "strategies/parts/parameter_table.h"
#include "tests/support/contains.h"
#include "tests/unit/strategies/sharded/sharded_runs.h"

namespace dpbench {
namespace {

using namespace ddp_ranks;
using namespace sharded_runs;
using fsdp::RowCut;

TEST(ShardsByRows, OfAllRanksTogetherAreTheWholeTensor) {
  const std::vector<at::Tensor> tensors = {at::rand({7, 3}), at::rand({2}), at::rand({5, 4}).t(), at::rand({}),
                                           at::rand({6, 1, 2})};
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const RowCut cut(tensors, ranks);
    const at::Tensor whole = at::zeros({cut.whole_elements()});
    for (int rank = 0; rank < ranks; ++rank)
      for (size_t i = 0; i < tensors.size(); ++i)
        cut.rows_in(cut.shard_of(whole, rank), i, rank).copy_(cut.rows_of(tensors[i], i, rank));
    const at::Tensor packed = at::zeros({cut.whole_elements()});
    for (size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor found = at::empty_like(tensors[i]);
      cut.unpack(whole, i, found);
      EXPECT_TRUE(found.equal(tensors[i])) << ranks << " ranks, tensor " << i;
      cut.pack(tensors[i], i, 2, packed);
    }
    EXPECT_TRUE(packed.equal(whole * 2)) << ranks;
  }
}

TEST(ShardsByRows, HaveFewerRowsOrNoneOnTheLastRanks) {
  const at::Tensor tensor = at::arange(10).view({5, 2});
  const RowCut cut({tensor}, 4);
  std::vector<int64_t> rows;
  for (int rank = 0; rank < 4; ++rank) rows.push_back(cut.rows_of(tensor, 0, rank).size(0));
  EXPECT_EQ(rows, (std::vector<int64_t>{2, 2, 1, 0}));
  EXPECT_TRUE(cut.padded());
  EXPECT_EQ(cut.shard_elements(), 4);
  EXPECT_FALSE(RowCut({at::zeros({4, 2})}, 2).padded());
}

TEST(ParameterTable, HasEachTensorOnceUnderItsFirstNameWithTheBlocksThatUseIt) {
  // The blocks of the following model: embedding, layer, norm, head.
  const auto tied = gpt("layers=1,hidden=16,heads=2,seq=8,vocab=128")->model(0);
  const std::vector<TableRow> table = parameter_table(*tied);
  EXPECT_EQ(table[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(table[0].blocks, (std::vector<size_t>{0, 3}));
  EXPECT_TRUE(table[0].used_in(3, 4));
  EXPECT_FALSE(table[0].used_in(1, 3));
  for (size_t i = 1; i < table.size(); ++i) EXPECT_EQ(table[i].blocks.size(), 1U) << table[i].name;
  const auto convnet = workload_registry().at("convnet").make({})->model(0);
  EXPECT_EQ(buffer_table(*convnet).size(), convnet->named_buffers().size());
}

TEST(ParameterTable, RefusesALayerThatIsNotRegisteredInItsModel) {
  struct Loose : Model {
    Loose() {
      const auto layer = std::make_shared<torch::nn::Module>("layer");
      layer->register_parameter("weight", at::zeros({2}));
      add_block({"loose", {layer}, [](const at::Tensor& x, const Context&) { return x; }});
    }
  };
  EXPECT_THROW(parameter_table(Loose()), std::runtime_error);
}

TEST(UnitPlan, PutsParametersSharedByUnitsIntoTheRootUnit) {
  const auto tied = gpt("layers=3,hidden=16,heads=2,seq=8,vocab=128")->model(0);
  const auto plan = fsdp::plan_units(*tied, 2);
  EXPECT_EQ(plan.units.size(), 3U);  // the units: embedding with a layer; two layers; norm with head
  ASSERT_EQ(plan.root.parameters.size(), 1U);
  EXPECT_TRUE(plan.root.parameters[0].is_same(*tied->named_parameters().find("model.embed_tokens.weight")));
  const auto one = fsdp::plan_units(*tied, 100);
  EXPECT_EQ(one.units.size(), 1U);
  EXPECT_TRUE(one.root.parameters.empty()) << "a single span uses the tied embedding";
}

TEST(UnitPlan, PutsEveryParameterIntoExactlyOneUnit) {
  for (const char* name : {"gpt", "convnet", "mnist-mlp", "random-linear", "probe-tied", "probe-frozen"}) {
    const auto model = workload_registry().at(name).make({})->model(0);
    std::set<const void*> expected, found;
    for (const at::Tensor& one : model->parameters()) expected.insert(one.unsafeGetTensorImpl());
    const auto plan = fsdp::plan_units(*model, 1);
    size_t count = plan.root.parameters.size();
    for (const at::Tensor& one : plan.root.parameters) found.insert(one.unsafeGetTensorImpl());
    for (const auto& unit : plan.units) {
      count += unit.parameters.size();
      for (const at::Tensor& one : unit.parameters) found.insert(one.unsafeGetTensorImpl());
    }
    EXPECT_EQ(found, expected) << name;
    EXPECT_EQ(count, expected.size()) << name;
  }
}

TEST(ShardedStrategies, GiveTheBitsOfDdpsGradients) {
  const auto workload = gpt();
  for (const int world : {2, 3}) {
    const Outcome ddp = trained("ddp", world, *workload, {}, 1);
    for (const char* strategy : {"zero2", "fsdp"})
      EXPECT_EQ(first_difference(ddp.gradients, trained(strategy, world, *workload, {}, 1).gradients), "")
          << strategy << ", world " << world;
  }
}

TEST(Fsdp, GivesTheSameBitsForDifferentUnitPrefetchReshardAndSyncSettings) {
  const auto workload = gpt();
  for (const int world : {2, 3}) {
    const Outcome usual = trained("fsdp", world, *workload, {});
    const std::vector<Given> alternatives = {
        {{"reshard", "off"}}, {{"prefetch", "0"}},
        {{"prefetch", "2"}},  {{"unit", "2"}},
        {{"unit", "4"}},      {{"sync", "last"}},
        {{"poison", "on"}},   {{"prefetch", "2"}, {"reshard", "off"}, {"poison", "on"}}};
    for (const Given& params : alternatives) {
      const Outcome other = trained("fsdp", world, *workload, params);
      const std::string which = params.begin()->first + "=" + params.begin()->second;
      EXPECT_EQ(first_difference(usual.gradients, other.gradients), "") << which;
      EXPECT_EQ(first_difference(usual.parameters, other.parameters), "") << which;
      EXPECT_EQ(first_difference(usual.state, other.state), "") << which;
    }
    EXPECT_EQ(first_difference(usual.parameters, trained("zero2", world, *workload, {}).parameters), "") << "zero2";
  }
}

// A model of three blocks. The first block is left out of some forward passes, or its parameter is frozen. The second
// block has a parameter without elements.
class ThreeBlocks : public Model {
 public:
  ThreeBlocks(bool frozen, std::function<bool(const Context&)> skips) {
    const auto layer = [&](const char* name, bool trained) {
      auto module = register_module(name, std::make_shared<torch::nn::Module>(name));
      module->register_parameter("weight", at::eye(4) * 0.5 + at::arange(16).view({4, 4}) * 0.01, trained);
      return module;
    };
    const auto first = layer("first", !frozen), second = layer("second", true), third = layer("third", true);
    second->register_parameter("nothing", at::zeros({0, 4}));
    add_block({"first", {first}, [=](const at::Tensor& x, const Context& context) {
                 return skips(context) ? x : at::linear(x, first->parameters()[0]).tanh();
               }});
    add_block({"second", {second}, [=](const at::Tensor& x, const Context&) {
                 return at::linear(x, second->parameters()[0]).tanh() + second->parameters()[1].sum();
               }});
    add_block(
        {"third", {third}, [=](const at::Tensor& x, const Context&) { return at::linear(x, third->parameters()[0]); }});
  }
};

class InBlocks : public SecondLayerIf {
 public:
  InBlocks(bool frozen, std::function<bool(const Context&)> skips)
      : SecondLayerIf({}), frozen_(frozen), skips_(std::move(skips)) {}
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<ThreeBlocks>(frozen_, skips_); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor&) const override { return output.square().mean(); }
  OptimizerSpec optimizer() const override {
    return {.kind = OptimizerSpec::Kind::adam, .learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8};
  }

 private:
  bool frozen_;
  std::function<bool(const Context&)> skips_;
};

void expect_like_ddp(const Workload& workload, const Given& params, const Given& of_ddp) {
  const Outcome ddp = trained("ddp", 2, workload, of_ddp, 5);
  for (const char* strategy : {"zero2", "fsdp"}) {
    Given own = params;
    if (strategy == std::string("zero2")) own.erase("prefetch");
    const Outcome found = trained(strategy, 2, workload, own, 5);
    const auto near = [&](const NamedTensors& due, const NamedTensors& mine) {
      for (const auto& [name, tensor] : due) {
        const at::Tensor* other = find(mine, name);
        ASSERT_TRUE(other && other->defined() == tensor.defined()) << strategy << ": " << name;
        EXPECT_TRUE(!tensor.defined() || other->allclose(tensor, 1e-5, 1e-7)) << strategy << ": " << name;
      }
    };
    near(ddp.gradients, found.gradients);
    near(ddp.parameters, found.parameters);
    near(ddp.state, found.state);
  }
}

TEST(ShardedStrategies, TrainLikeDdpWhenSomeRanksSkipAUnit) {
  const InBlocks workload(false, [](const Context& context) { return context.ids[0].item<int64_t>() % 16 == 8; });
  for (const char* prefetch : {"0", "1", "2"})
    expect_like_ddp(workload, {{"find_unused", "on"}, {"prefetch", prefetch}}, {{"find_unused", "on"}});
}

TEST(ShardedStrategies, TrainLikeDdpWhenAUnitIsFrozenOrSkippedByAllRanks) {
  const auto never = [](const Context&) { return false; };
  const auto later = [](const Context& context) { return context.step > 1; };
  for (const char* prefetch : {"0", "1", "2"}) {
    expect_like_ddp(InBlocks(true, never), {{"prefetch", prefetch}}, {});
    expect_like_ddp(InBlocks(false, later), {{"find_unused", "on"}, {"prefetch", prefetch}}, {{"find_unused", "on"}});
  }
}

TEST(ShardedStrategies, GiveDdpsGradientsIfTheyReduceOnlyInTheLastMicroBatch) {
  // The embedding is not tied to the head (tied=off). Otherwise its gradients would be added unit by unit instead of
  // micro-batch by micro-batch.
  const auto workload = gpt("style=llama,layers=2,hidden=16,heads=2,kv_heads=1,seq=8,vocab=128,tied=off");
  const auto gradients_of = [&](const std::string& strategy, const Given& params) {
    NamedTensors gradients;
    expect_no_errors(on_ranks(3, [&](Rank& me) {
      const auto one = made(strategy, me, *workload, params, at::kFloat);
      Phases phases;
      const Batch micro[] = {batch_of(*workload, me.rank, 0), batch_of(*workload, me.rank, 1, 2)};
      one->step(0, micro, phases);
      const NamedTensors mine = copies(one->gradients());
      if (me.rank == 0) gradients = mine;
    }));
    return gradients;
  };
  const NamedTensors ddp = gradients_of("ddp", {});
  for (const char* strategy : {"zero2", "fsdp"})
    EXPECT_EQ(first_difference(ddp, gradients_of(strategy, {{"sync", "last"}})), "") << strategy;
  EXPECT_EQ(first_difference(ddp, gradients_of("fsdp", {{"sync", "last"}, {"reshard", "off"}})), "");
}

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& one : tensors) bytes += static_cast<int64_t>(one.nbytes());
  return bytes;
}

TEST(Fsdp, PeakOfGatheredParametersEqualsItsFormulaForEachPrefetchDepth) {
  const auto workload = gpt("layers=6,hidden=16,heads=2,seq=8,vocab=128");
  const auto plan = fsdp::plan_units(*workload->model(0), 1);
  const int64_t root = bytes_of(plan.root.parameters), layer = bytes_of(plan.units[1].parameters);
  for (const int64_t prefetch : {0, 1, 2}) {
    const double peak = trained("fsdp", 2, *workload, {{"prefetch", std::to_string(prefetch)}}).peak_bytes;
    EXPECT_EQ(peak, static_cast<double>(root + (1 + std::max<int64_t>(1, prefetch)) * layer)) << prefetch;
  }
  int64_t all = root;
  for (const auto& unit : plan.units) all += bytes_of(unit.parameters);
  EXPECT_GE(trained("fsdp", 2, *workload, {{"reshard", "off"}}).peak_bytes, static_cast<double>(all));
}

TEST(Fsdp, PeakOfGatheredParametersIncludesTheShardsKeptForTheBackwardPassIfRanksReshardInGroups) {
  const auto workload = gpt("layers=6,hidden=16,heads=2,seq=8,vocab=128");
  const auto plan = fsdp::plan_units(*workload->model(0), 1);
  const int64_t root = bytes_of(plan.root.parameters), embedding = bytes_of(plan.units[0].parameters),
                layer = bytes_of(plan.units[1].parameters);
  for (const auto& [reshard, mesh] :
       {std::pair{"shard", "dp=2,shard=2"}, {"2", "dp=4"}, {"2", "shard=4"}, {"2", "dp=2,shard=4"}}) {
    const Outcome found = trained(
        {.strategy = "fsdp", .world = ranks_of(parse_mesh(mesh)), .params = {{"reshard", reshard}}, .mesh = mesh},
        *workload);
    // The peak is in the backward pass of the last layer: this layer is gathered, the layer before it is being
    // gathered, and a rank keeps half of the embedding and of the other five layers.
    EXPECT_EQ(found.peak_bytes, static_cast<double>(root + 2 * layer + (embedding + 5 * layer) / 2)) << mesh;
  }
}

TEST(Fsdp, WithReshardNDividesTheShardAxisIntoPartsOfNNeighbouringRanks) {
  const StrategyInfo& info = strategy_registry().at("fsdp");
  const auto mesh_for = [&](const std::string& reshard, const std::string& asked, int world) {
    return text_of(effective_mesh(info, Params(info.params, {{"reshard", reshard}}, "fsdp"), asked, world));
  };
  EXPECT_EQ(mesh_for("2", "", 4), "dp=4/2");
  EXPECT_EQ(mesh_for("4", "shard=12", 12), "shard=12/4");
  EXPECT_EQ(mesh_for("2", "dp=2,shard=4", 8), "dp=2,shard=4/2") << "HSDP";
  for (const auto& [reshard, asked] :
       {std::pair{"2", "dp=3"}, {"4", "dp=4"}, {"2", "dp=4,shard=2"}, {"4", "dp=4,shard=2"}, {"shard", "dp=2,shard=4"}})
    EXPECT_EQ(mesh_for(reshard, asked, ranks_of(parse_mesh(asked))), asked) << reshard;
}

TEST(Fsdp, RefusesReshardGroupsThatTheRanksCannotForm) {
  const auto refusal_on = [](const std::string& reshard, const std::string& mesh, int world) {
    const Training run{.strategy = "fsdp", .world = world, .params = {{"reshard", reshard}}, .mesh = mesh};
    std::set<std::string> errors;
    for (const std::string& error :
         on_ranks(world, [&](Rank& me) { made_on(mesh_of(run, me), run.strategy, always(), run.params, at::kFloat); }))
      errors.insert(error);
    EXPECT_EQ(errors.size(), 1U) << "ranks disagree";
    return *errors.begin();
  };
  EXPECT_EQ(refusal_on("2", "", 4), "");
  EXPECT_EQ(refusal_on("2", "dp=2,shard=4", 8), "");
  EXPECT_EQ(refusal_on("2", "", 1), "") << "one rank shards nothing";
  EXPECT_TRUE(mentions(refusal_on("2", "", 3), {"fsdp.reshard=2", "3 ranks of the axis dp"}));
  EXPECT_TRUE(mentions(refusal_on("3", "", 3), {"fsdp.reshard=3", "3 ranks of the axis dp", "Use reshard=on"}));
  EXPECT_TRUE(mentions(refusal_on("2", "dp=2,shard=2", 4), {"fsdp.reshard=2", "axis shard", "Use reshard=on"}));
  EXPECT_TRUE(mentions(refusal_on("4", "dp=2,shard=2", 4), {"fsdp.reshard=4", "2 ranks of the axis shard"}));
}

// Gives access to the model that a strategy trains.
struct Watched : WrappedWorkload {
  Watched(const Workload& inner, std::shared_ptr<Model>& last) : WrappedWorkload(inner), last_(last) {}
  std::shared_ptr<Model> model(uint64_t seed) const override { return last_ = inner_.model(seed); }
  std::shared_ptr<Model>& last_;
};

TEST(Fsdp, TheModelsOwnParametersHoldNoMemoryAfterAStep) {
  const auto workload = gpt();
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    std::shared_ptr<Model> model;
    const Watched watched(*workload, model);
    const auto strategy = made("fsdp", me, watched, {}, at::kFloat);
    one_step(*strategy, watched, me.rank, 0);
    for (const auto& item : model->named_parameters())
      check(item.value().storage().nbytes() == 0, item.key() + " still has memory after a step");
  }));
}

TEST(Fsdp, WithPoisonFillsTheMemoryOfTheModelsOwnParametersWithNanAfterAStep) {
  const auto workload = gpt();
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    std::shared_ptr<Model> model;
    const Watched watched(*workload, model);
    const auto strategy = made("fsdp", me, watched, {{"poison", "on"}}, at::kFloat);
    one_step(*strategy, watched, me.rank, 0);
    for (const auto& item : model->named_parameters())
      check(item.value().isnan().all().item<bool>(), item.key() + " still has values after a step");
  }));
}

// Counts the all-gathers of a rank, and those with an output that holds only NaN when they begin.
class OutputWatch : public ForwardingBackend {
 public:
  struct Gathers {
    int all = 0, with_nan = 0;
  };
  OutputWatch(c10::intrusive_ptr<c10d::Backend> inner, Gathers& gathers)
      : ForwardingBackend(std::move(inner)), gathers_(gathers) {}

 protected:
  WorkPtr around(Call call) override {
    if (call.op == CollectiveOp::allgather) {
      ++gathers_.all;
      gathers_.with_nan += call.output.at(0).isnan().all().item<bool>();
    }
    return call.run();
  }

 private:
  Gathers& gathers_;
};

TEST(Fsdp, WithPoisonFillsTheOutputsOfAllGathersWithNanBeforehand) {
  const auto workload = gpt();
  const Training plain{.strategy = "fsdp", .world = 4, .params = {{"poison", "on"}}};
  const Training in_pairs{.strategy = "fsdp", .world = 4, .params = {{"poison", "on"}, {"reshard", "2"}}};
  for (const Training& run : {plain, in_pairs})
    expect_no_errors(on_ranks(run.world, [&](Rank& me) {
      OutputWatch::Gathers gathers;
      const Mesh mesh = mesh_of(run, me).with_groups([&](const std::string&, const auto& group) {
        return wrapped_group(group, at::kCPU, [&](const c10::intrusive_ptr<c10d::Backend>& inner) {
          return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<OutputWatch>(inner, gathers));
        });
      });
      const auto strategy = made_on(mesh, run.strategy, *workload, run.params, at::kFloat);
      gathers = {};
      one_step(*strategy, *workload, me.rank, 0);
      check(gathers.all > 0 && gathers.with_nan == gathers.all,
            std::to_string(gathers.with_nan) + " of " + std::to_string(gathers.all) + " outputs hold NaN");
    }));
}

int64_t memory_of_all(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return memory_of(tensors);
}

TEST(ShardedStrategies, KeepOnEachRankOnlyItsRowsOfGradientsAndStateAfterAStep) {
  constexpr int ranks = 3;
  // this model is trained by Adam: two tensors of state and a step count for each parameter
  const auto workload = gpt();
  int64_t rows = 0, counts = 0;
  for (const at::Tensor& one : workload->model(0)->parameters()) {
    rows += RowCut({one}, ranks).shard_elements() * static_cast<int64_t>(one.itemsize());
    counts += static_cast<int64_t>(sizeof(double));
  }
  for (const std::string strategy : {"zero2", "fsdp"})
    expect_no_errors(on_ranks(ranks, [&](Rank& me) {
      std::shared_ptr<Model> model;
      const Watched watched(*workload, model);
      const auto one = made(strategy, me, watched, {}, at::kFloat);
      one_step(*one, watched, me.rank, 0);
      const KeptTensors kept = one->kept_tensors();
      const int64_t gradients = memory_of_all(kept.gradients), state = memory_of_all(kept.state);
      check(gradients > 0 && gradients <= rows, strategy + " keeps gradients of " + std::to_string(gradients));
      check(state > rows && state <= 2 * rows + counts, strategy + " keeps state of " + std::to_string(state));
      for (const at::Tensor& parameter : model->parameters())
        check(!parameter.grad().defined(), strategy + " keeps an unsharded gradient");
    }));
}

TEST(ShardedStrategies, ResumeFromADdpSnapshotWithAnotherNumberOfRanks) {
  const auto workload = gpt();
  Snapshot stored;
  Outcome expected;
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = made("ddp", me, *workload, {}, at::kDouble);
    for (int64_t step = 0; step < 2; ++step) one_step(*ddp, *workload, me.rank, step);
    const Snapshot mine = snapshot_of(*ddp);
    if (me.rank == 0) stored = mine;
  }));
  for (const char* strategy : {"ddp", "zero2", "fsdp"}) {
    Outcome found;
    expect_no_errors(on_ranks(3, [&](Rank& me) {
      const auto resumed = made(strategy, me, *workload, {}, at::kDouble);
      resumed->load(stored);
      one_step(*resumed, *workload, me.rank, 2);
      const Outcome mine{copies(resumed->gradients()), copies(resumed->parameters()), copies(resumed->state())};
      if (me.rank == 0) found = mine;
    }));
    if (strategy == std::string("ddp")) expected = found;
    EXPECT_EQ(first_difference(expected.gradients, found.gradients), "") << strategy;
    for (const auto& [name, tensor] : expected.parameters)
      EXPECT_TRUE(find(found.parameters, name)->allclose(tensor, 1e-13, 1e-15)) << strategy << ": " << name;
    for (const auto& [name, tensor] : expected.state)
      EXPECT_TRUE(find(found.state, name)->allclose(tensor, 1e-13, 1e-15)) << strategy << ": " << name;
  }
}

TEST(ShardedStrategies, ClipByTheNormOfTheWholeGradient) {
  const auto workload = gpt();
  const Outcome ddp = trained("ddp", 3, *workload, {}, 1, 0.01);
  for (const char* strategy : {"zero2", "fsdp"}) {
    const Outcome found = trained(strategy, 3, *workload, {}, 1, 0.01);
    for (const auto& [name, tensor] : ddp.gradients)
      EXPECT_TRUE(find(found.gradients, name)->allclose(tensor, 1e-6, 1e-12)) << strategy << ": " << name;
  }
}

TEST(ShardedStrategies, RejectUnusedParametersByNameUnlessFindUnusedIsOn) {
  const SecondLayerIf sometimes([](const Context& context) { return context.step == 0; });
  for (const char* strategy : {"zero2", "fsdp"}) {
    for (const auto& error : on_ranks(2, [&](Rank& me) {
           const auto one = made(strategy, me, sometimes, {});
           one_step(*one, sometimes, me.rank, 0);
           one_step(*one, sometimes, me.rank, 1);
         }))
      EXPECT_TRUE(mentions(error, {strategy, "second", "find_unused=on"}));
    const auto unused = on_ranks(2, [&](Rank& me) {
      const auto one = made(strategy, me, sometimes, {{"find_unused", "on"}});
      one_step(*one, sometimes, me.rank, 0);
      const NamedTensors before = copies(one->parameters());
      one_step(*one, sometimes, me.rank, 1);
      check(!find(one->gradients(), "second")->defined(), "the gradient of an unused parameter is undefined");
      check(same_bits(*find(before, "second"), *find(one->parameters(), "second")), "an unused parameter stays");
      check(!same_bits(*find(before, "first"), *find(one->parameters(), "first")), "a used parameter moves");
    });
    expect_no_errors(unused);
  }
}

std::string refusal(const std::string& strategy, const Given& params, at::ScalarType dtype = at::kFloat) {
  const auto errors = on_ranks(1, [&](Rank& me) { made(strategy, me, always(), params, dtype); });
  return errors[0].empty() ? "nothing was refused" : errors[0];
}

TEST(ShardedStrategies, RefuseInvalidValuesForTheFlagParamNamingTheParameter) {
  EXPECT_EQ(refusal("fsdp", {}), "nothing was refused");
  EXPECT_TRUE(mentions(refusal("fsdp", {{"unit", "0"}}), {"fsdp.unit=0", "1 or more"}));
  EXPECT_TRUE(mentions(refusal("fsdp", {{"prefetch", "-1"}}), {"fsdp.prefetch=-1", "0 or more"}));
  EXPECT_TRUE(mentions(refusal("fsdp", {{"sync", "never"}}), {"fsdp.sync=never", "each, last"}));
  EXPECT_TRUE(mentions(refusal("fsdp", {{"reduce", "fp8"}}), {"fsdp.reduce=fp8", "bf16"}));
  EXPECT_TRUE(mentions(refusal("fsdp", {{"gather", "bf16"}}), {"fsdp.gather=bf16", "--dtype bf16"}));
  EXPECT_EQ(refusal("fsdp", {{"gather", "bf16"}}, at::kBFloat16), "nothing was refused");
  EXPECT_TRUE(mentions(refusal("fsdp", {{"gather", "bf16"}, {"sync", "last"}}, at::kBFloat16),
                       {"fsdp.gather=bf16", "fsdp.sync=last"}));
  EXPECT_TRUE(mentions(refusal("fsdp", {{"reshard", "1"}}), {"fsdp.reshard=1", "2 or more", "use off"}));
  EXPECT_TRUE(mentions(refusal("fsdp", {{"reshard", "some"}}), {"fsdp.reshard=some", "shard,", "number"}));
  EXPECT_TRUE(mentions(refusal("layout", {{"reshard", "2"}}), {"layout.reshard=2", "on or off"}));
  EXPECT_TRUE(mentions(refusal("zero2", {{"unit", "0"}}), {"zero2.unit=0"}));
  EXPECT_TRUE(mentions(refusal("zero2", {{"reshard", "off"}}), {"reshard", "zero2"}));
}

TEST(Fsdp, DeclaresAboutHalfTheGatheredBytesWithGatherInBfloat16) {
  const auto workload = gpt();
  const auto model = workload->model(0);
  const StrategyInfo& fsdp = strategy_registry().at("fsdp");
  const auto gathered = [&](const Given& given, at::ScalarType dtype) {
    const Params params(fsdp.params, given, "fsdp");
    const MeshShape mesh = {{"dp", 2}};
    const auto traffic = fsdp.traffic({.model = *model, .dtype = dtype, .params = params, .mesh = mesh, .micro = {1}});
    for (const Traffic& one : traffic.value())
      if (one.op == "allgather") return one.bytes;
    return int64_t{0};
  };
  const auto own = gathered({}, at::kBFloat16), narrow = gathered({{"gather", "bf16"}}, at::kBFloat16);
  EXPECT_EQ(gathered({{"gather", "bf16"}}, at::kDouble), 2 * own);
  EXPECT_GT(narrow, own / 2) << "vectors keep their dtype";
  EXPECT_LT(narrow, own * 0.6);
}

// Returns the bytes that fsdp's traffic formula gives for a step, by operation and axis, such as "allgather dp".
std::map<std::string, int64_t> formula_bytes(const Model& model, const std::string& reshard, const std::string& asked) {
  const StrategyInfo& info = strategy_registry().at("fsdp");
  const Params params(info.params, {{"reshard", reshard}}, info.name);
  const MeshShape mesh = effective_mesh(info, params, asked, ranks_of(parse_mesh(asked)));
  const auto traffic = info.traffic(
      {.model = model, .dtype = at::kFloat, .params = params, .mesh = mesh, .accumulate = 2, .micro = {1, 1}});
  std::map<std::string, int64_t> bytes;
  for (const Traffic& one : traffic.value())
    if (one.bytes > 0) bytes[one.op + " " + one.axis] += one.bytes;
  return bytes;
}

TEST(Fsdp, WithReshardNGathersParametersForTheBackwardPassOnlyWithinPartsOfNRanks) {
  // Four ranks shard each parameter. Its number of rows is a multiple of 4, so no shard is padded.
  const auto model = gpt("layers=2,hidden=16,heads=2,seq=8,vocab=128")->model(0);
  for (const auto& [mesh, axis] : {std::pair{"dp=2,shard=4", "shard"}, {"dp=4", "dp"}}) {
    const std::string whole = std::string("allgather ") + axis, parts = whole + "/2";
    auto again = formula_bytes(*model, "on", mesh), kept = formula_bytes(*model, "off", mesh),
         in_pairs = formula_bytes(*model, "2", mesh);
    EXPECT_EQ(in_pairs[whole], kept[whole]) << "one gather for each forward pass";
    EXPECT_GT(in_pairs[parts], 0);
    EXPECT_EQ(in_pairs[parts], 2 * (again[whole] - kept[whole])) << "a half is twice as much as a quarter";
    in_pairs.erase(parts), in_pairs.erase(whole), again.erase(whole);
    EXPECT_EQ(in_pairs, again) << "the same reductions";
  }
}

}  // namespace
}  // namespace dpbench
