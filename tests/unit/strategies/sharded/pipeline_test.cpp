// Tests the strategy pp (pipeline parallelism): its results compared with accumulation of the same micro-batches on one
// device, its cut of models, and its errors.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/scenario/wrapped_workload.h"
#include "strategies/api/backward.h"
#include "strategies/api/parts/block_runs.h"
#include "strategies/comm/base/comm_work.h"
#include "strategies/pipeline/stages.h"
#include "tests/support/contains.h"
#include "tests/unit/strategies/sharded/pipeline_steps.h"
#include "workloads/layers/linear.h"

namespace dpbench {
namespace {

using namespace pipeline_steps;

class PipelineSteps : public testing::TestWithParam<Setting> {};

// A stage adds the gradients of the micro-batches in ascending order, as one device does. Its tied parameters are the
// exception: they are summed once over stages, not in each micro-batch.
TEST_P(PipelineSteps, HaveTheBitsOfGradientAccumulationOnOneDevice) {
  const Setting& run = GetParam();
  const auto workload = run.make_workload();
  const Outcome expected = steps_on_one_device(run);
  expect_no_errors(on_ranks(run.ranks, [&](Rank& me) {
    const auto strategy =
        made_on(me.mesh("pp=" + std::to_string(run.ranks)), "pp", *workload, run.params, at::kFloat, {});
    const Outcome found = after_steps(*strategy, *workload, run.micros);
    if (me.rank == 0) expect_same_bits(expected, found, run.name);
  }));
}

constexpr const char* schedules[] = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zbv"};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const std::string schedule : schedules)
    for (const int ranks : {2, 3, 4}) {
      const Given params = {{"schedule", schedule}, {"poison", "on"}};
      const std::string name = schedule + "_" + std::to_string(ranks);
      for (const int64_t micros : {ranks - 1, ranks, 2 * ranks + 1})
        all.push_back({name + "_" + std::to_string(micros), "gpt", "tiny-llama,dropout=0.1", ranks, micros, params});
      // The mean over the micro-batches is exact if their number is a power of two.
      for (const int micros : {ranks - 1, ranks, 8})
        if (std::has_single_bit(static_cast<unsigned>(micros)))
          all.push_back({name + "_tied_integers_" + std::to_string(micros), "gpt-exact", "", ranks, micros, params});
    }
  all.push_back({"zb_h1_of_a_convnet", "convnet", "", 3, 4, {{"schedule", "zb-h1"}}});
  all.push_back({"integers_of_llama", "gpt-exact-llama", "", 3, 4, {}});
  all.push_back({"batch_norm", "convnet", "", 3, 4, {}});
  all.push_back({"own_cut", "convnet", "", 2, 3, {{"blocks", "1+4"}}});
  return all;
}

std::string test_name(const testing::TestParamInfo<Setting>& one) {
  std::string name = one.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Pipeline, PipelineSteps, testing::ValuesIn(settings()), test_name);

constexpr const char *embedding = "model.embed_tokens.weight", *head = "lm_head.weight";

// Returns the sum of the absolute values of all terms of the tied embedding's gradient: for each micro-batch, the
// gradients that the embedding and the head have in a model with the same weights, but without the tie.
at::Tensor sizes_of_tied_gradient(const Setting& run) {
  const auto untied = workload_registry().at(run.workload).make({.model = run.model + ",tied=off"});
  const Replica replica(*untied, at::kCPU, at::kFloat, /*init_seed=*/3, /*step_seed=*/4);  // the seeds of made_on()
  const auto tied_weights = run.make_workload()->model(3)->named_parameters();
  const auto weights = replica.shared_model()->named_parameters();
  {
    const at::NoGradGuard no_grad;
    for (const auto& one : weights) one.value().copy_(tied_weights[one.key() == head ? embedding : one.key()]);
  }
  at::Tensor sizes = at::zeros_like(weights[head], at::kDouble);
  for (const Batch& batch : micro_batches(*untied, run.micros, 0)) {
    replica.clear_gradients();
    const at::Tensor output = replica.forward(0, batch);
    backward(micro_loss(*untied, output, batch.target, static_cast<size_t>(run.micros)));
    for (const char* name : {embedding, head}) sizes += weights[name].grad().abs();
  }
  return sizes;
}

class TiedPipelineSteps : public testing::TestWithParam<Setting> {};

// The gradient of a tied embedding is a sum of two terms for each micro-batch. The pipeline adds the terms of each
// stage first, so its sum differs from that of one device by at most the rounding bounds of both orders (Higham,
// Accuracy and Stability of Numerical Algorithms, section 4.2).
TEST_P(TiedPipelineSteps, HaveTheBitsOfOneDeviceUpToTheRoundingOfTheTiedGradient) {
  const Setting& run = GetParam();
  const auto workload = run.make_workload();
  Outcome expected = steps_on_one_device(run, 1), found;
  expect_no_errors(on_ranks(run.ranks, [&](Rank& me) {
    const auto strategy =
        made_on(me.mesh("pp=" + std::to_string(run.ranks)), "pp", *workload, run.params, at::kFloat, {});
    const Outcome mine = after_steps(*strategy, *workload, run.micros, 1);
    if (me.rank == 0) found = mine;
  }));
  const double rounding = gamma(2 * static_cast<double>(run.micros) - 1, unit_roundoff(at::kFloat));
  const auto gradient = [](const Outcome& one) {
    const at::Tensor* tied = find(one.gradients, embedding);
    return tied ? *tied : at::Tensor();
  };
  EXPECT_LE(largest_ratio(gradient(found), gradient(expected), 2 * rounding * sizes_of_tied_gradient(run)), 1);
  for (Outcome* one : {&expected, &found})
    for (NamedTensors* tensors : {&one->gradients, &one->parameters, &one->state})
      std::erase_if(*tensors, [](const auto& named) { return named.first.starts_with(embedding); });
  expect_same_bits(expected, found, run.name);
}

std::vector<Setting> tied_settings() {
  std::vector<Setting> all;
  for (const std::string schedule : schedules)
    for (const int ranks : {2, 3, 4})
      for (const int64_t micros : {ranks, 2 * ranks + 1})
        all.push_back({schedule + "_" + std::to_string(ranks) + "_" + std::to_string(micros),
                       "gpt",
                       "tiny,dropout=0.1",
                       ranks,
                       micros,
                       {{"schedule", schedule}}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Pipeline, TiedPipelineSteps, testing::ValuesIn(tied_settings()), test_name);

TEST(Stages, AreConsecutiveAndAtMostOneBlockLongerThanAnEvenShare) {
  const auto model = workload_registry().at("convnet").make({})->model(1);
  const size_t blocks = model->blocks().size();
  for (const int stages : {1, 2, 3, 7}) {
    const auto cut = pipeline::cut_stages(*model, std::vector<int>(static_cast<size_t>(stages), 0), "");
    size_t next = 0;
    for (const auto& stage : cut) {
      EXPECT_EQ(stage.first, next);
      EXPECT_LE(stage.last - stage.first, blocks / static_cast<size_t>(stages) + 1);
      next = stage.last;
    }
    EXPECT_EQ(next, blocks);
  }
}

// The blocks are the embedding, four layers, the last norm and the head. If stages had equally many blocks, the first
// of two stages would have three of the layers.
TEST(Stages, AreBalancedByTheFlopOfTheirBlocks) {
  const auto workload = gpt("layers=4,hidden=32,heads=2,mlp=128,seq=8,vocab=123");
  const Replica replica(*workload, at::kCPU, at::kFloat, 1, 1);
  const std::vector<double> flop = pipeline::flop_of(runs_of_blocks(replica, *workload));
  const double attention = 4.0 * 8 * 8 * 32;
  const double layer = 2.0 * 8 * (4 * 32 * 32 + 2 * 32 * 128) + attention, head = 2.0 * 8 * 32 * 123;
  EXPECT_EQ(flop, (std::vector<double>{0, layer, layer, layer, layer, 0, head}));
  const auto cut = pipeline::cut_stages(*replica.shared_model(), {0, 1}, "", "pp", flop);
  EXPECT_EQ(cut.at(0).last, 3u);
  EXPECT_TRUE(replica.shared_model()->is_training());
}

TEST(Stages, OfAModelWithoutMatrixProductsHaveEquallyManyBlocks) {
  const auto model = gpt("tiny")->model(1);
  const auto cut = pipeline::cut_stages(*model, {0, 1}, "", "pp", {0, 0, 0, 0, 0});
  EXPECT_EQ(cut.at(0).last, 3u);
}

TEST(Stages, ATiedEmbeddingBelongsToTheFirstAndTheLastStage) {
  const auto model = gpt()->model(1);
  const auto stages = pipeline::cut_stages(*model, {0, 1}, "");
  size_t tied = 0;
  for (const auto& one : pipeline::placed_parameters(*model, stages)) tied += one.tied();
  EXPECT_EQ(tied, 1u);
}

// The expected traffic is that of rank 0 of two ranks. Between the stages travel 11 tokens of 18 features for each
// sample. The tied embedding has 257 rows.
TEST(PipelineTraffic, FormulaCountsActivationsTheirGradientsTheTiedEmbeddingAndTheLoss) {
  const auto workload = gpt("tiny");
  const auto model = workload->model(1);
  const MeshShape mesh = {{"pp", 2}};
  const auto of = [&](const Given& given, const std::vector<int64_t>& earlier) {
    const Params params(strategy_registry().at("pp").params, given, "pp");
    const auto formula =
        strategy_registry().at("pp").traffic({.model = *model,
                                              .dtype = at::kFloat,
                                              .params = params,
                                              .mesh = mesh,
                                              .clips = true,
                                              .micro = {4, 3},
                                              .earlier = earlier,
                                              .block_runs = runs_at_first_call(*workload, at::kFloat, at::kCPU)});
    std::map<std::string, std::pair<int64_t, int64_t>> all;
    for (const Traffic& one : formula.value()) all[one.op] = {one.bytes, one.calls.value()};
    return all;
  };
  constexpr int64_t activations = 7 * 11 * 18 * 4, tie = (257 * 18 + 1) * 4, header = 80;
  using Operations = std::map<std::string, std::pair<int64_t, int64_t>>;
  Operations due = {{"allreduce", {8, 1}},
                    {"broadcast", {header + 4, 2}},
                    {"recv", {activations + tie, 2 + 1}},
                    {"send", {activations + tie, 2 + 1}}};
  EXPECT_EQ(of({}, {3, 4}), due);
  due["send"] = {activations + tie + header, 2 + 1 + 1};
  EXPECT_EQ(of({}, {4}), due) << "the activation of 3 samples has a header";
  due["send"] = {activations + tie + 2 * header, 4 + 1 + 2}, due["recv"] = {activations + tie, 4 + 1};
  EXPECT_EQ(of({{"microbatches", "2"}}, {}), due) << "parts of 2, 2, 2 and 1 samples";
  // With two stages on each rank, all three boundaries between the four stages lie between the two ranks.
  due["send"] = {3 * activations + tie, 3 * 2 + 1}, due["recv"] = due["send"];
  EXPECT_EQ(of({{"schedule", "interleaved"}, {"stages", "2"}}, {3, 4}), due);
}

// Writes a schedule to a file that is removed at the end of the test.
class ScheduleFile {
 public:
  explicit ScheduleFile(const std::string& csv) { std::ofstream(path_) << csv; }
  ~ScheduleFile() { std::filesystem::remove(path_); }
  ScheduleFile(const ScheduleFile&) = delete;
  ScheduleFile& operator=(const ScheduleFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "dpbench-schedule-" + std::to_string(::getpid()) + ".csv";
};

constexpr char split_csv[] =
    "0F0,0F1,0I0,0F2,0I1,0W0,0I2,0W1,0W2\n"
    "1UNSHARD,1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2,1REDUCE_GRAD\n";

TEST(Pipeline, AScheduleFileGivesTheSameBitsAsTheScheduleGpipe) {
  const auto workload = gpt();
  const ScheduleFile file(split_csv);
  std::map<std::string, Outcome> outcomes;
  for (const auto& [name, value] : Given{{"schedule", "gpipe"}, {"file", file.path()}})
    expect_no_errors(on_ranks(2, [&, &name = name, &value = value](Rank& me) {
      const auto strategy = made_on(me.mesh("pp=2"), "pp", *workload, {{name, value}}, at::kFloat, {});
      const Outcome found = after_steps(*strategy, *workload, 3);
      if (me.rank == 0) outcomes[name] = found;
    }));
  expect_same_bits(outcomes.at("schedule"), outcomes.at("file"), "gpipe and the file");
}

// Shortens all sequences of a batch by 0, 1 or 2 tokens; the id of the first sample decides.
class DifferentLengths : public WrappedWorkload {
 public:
  using WrappedWorkload::WrappedWorkload;
  Batch batch(const at::Tensor& ids) const override {
    const Batch whole = inner_.batch(ids);
    const int64_t length = whole.input.size(1) - ids[0].item<int64_t>() % 3;
    const auto cut = [&](const at::Tensor& tensor) { return tensor.narrow(1, 0, length).contiguous(); };
    return {cut(whole.input), cut(whole.target), whole.ids};
  }
};

TEST(Pipeline, HasTheBitsOfOneDeviceIfSequenceLengthsDifferFromStepToStep) {
  const auto inner = gpt("tiny-llama");
  const DifferentLengths workload(*inner);
  const auto after = [&](Strategy& strategy) {
    for (int64_t step = 0; step < 3; ++step) {
      Phases phases;
      std::vector<Batch> micro;
      for (const int64_t first : {step, step + 3}) micro.push_back(workload.batch(at::arange(first, first + 2)));
      strategy.step(step, micro, phases);
    }
    return Outcome{copies(strategy.gradients()), copies(strategy.parameters()), copies(strategy.state())};
  };
  for (const std::string schedule : {"gpipe", "zb-h1"}) {
    std::optional<Outcome> due, found;
    expect_no_errors(
        on_ranks(1, [&](Rank& me) { due = after(*made_on(me.mesh(""), "ddp", workload, {}, at::kFloat, {})); }));
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      const auto strategy = made_on(me.mesh("pp=2"), "pp", workload, {{"schedule", schedule}}, at::kFloat, {});
      const Outcome mine = after(*strategy);
      if (me.rank == 0) found = mine;
    }));
    ASSERT_TRUE(due && found) << schedule;
    expect_same_bits(*due, *found, schedule);
  }
}

TEST(PipelineTraffic, HasNoFormulaIfSequencesDifferInLength) {
  const auto even = gpt("tiny-llama");
  const DifferentLengths uneven(*even);
  const auto model = even->model(1);
  const Params params(strategy_registry().at("pp").params, {}, "pp");
  const MeshShape mesh = {{"pp", 2}};
  const auto has_formula = [&](const Workload& workload) {
    return strategy_registry()
        .at("pp")
        .traffic({.model = *model,
                  .dtype = at::kFloat,
                  .params = params,
                  .mesh = mesh,
                  .micro = {4},
                  .block_runs = runs_at_first_call(workload, at::kFloat, at::kCPU)})
        .has_value();
  };
  EXPECT_TRUE(has_formula(*even));
  EXPECT_FALSE(has_formula(uneven));
}

std::string refusal(const Given& params, const std::string& workload = "convnet", int64_t micros = 0) {
  const auto made = workload_registry().at(workload).make({});
  std::string text;
  on_ranks(2, [&](Rank& me) {
    try {
      const auto strategy = made_on(me.mesh("pp=2"), "pp", *made, params, at::kFloat, {});
      if (micros > 0) after_steps(*strategy, *made, micros);
    } catch (const UsageError& error) {
      if (me.rank == 0) text = error.what();
    }
  });
  return text;
}

// Makes pp with a setup that forbids idle ranks (ranks without a part of the model). Returns rank 0's error.
std::string refusal_of_idle_ranks(const std::string& workload, int ranks) {
  const auto made = workload_registry().at(workload).make({});
  const StrategyInfo& pp = strategy_registry().at("pp");
  return on_ranks(ranks,
                  [&](Rank& me) {
                    pp.make({.workload = *made,
                             .devices = {at::kCPU},
                             .mesh = me.mesh("pp=" + std::to_string(ranks)),
                             .params = Params(pp.params, {}, "pp"),
                             .clip_norm = {},
                             .allows_idle = false});
                  })
      .at(0);
}

TEST(Pipeline, RefusesAModelThatLeavesARankWithoutBlocks) {
  expect_contains(refusal_of_idle_ranks("mnist-mlp", 3), {"2 blocks", "3 ranks", "rank 2"});
  expect_contains(refusal_of_idle_ranks("probe-mlp", 2), {"pp: ", "blocks", "nn.Sequential"});
  EXPECT_EQ(refusal_of_idle_ranks("mnist-mlp", 2), "");
}

struct Scale : torch::nn::Module {
  Scale() { factor = register_parameter("factor", at::ones({4})); }
  at::Tensor factor;
};

struct ThrowingHook : torch::autograd::PostAccumulateGradHook {
  void operator()(const at::Tensor& parameter) override {
    if (parameter.grad().defined()) throw std::runtime_error("no more");
  }
};

struct LinearScale : Scale {
  LinearScale() { weight = register_parameter("weight", at::eye(4)); }
  at::Tensor weight;
};

// A model of three blocks. In step 1, the second block throws: in its forward pass, or when it has the gradient of the
// parameter `in`.
struct FaultyModel : Model {
  explicit FaultyModel(const std::string& in) {
    for (const std::string name : {"a", "b", "c"}) {
      const auto layer = register_module(name, std::make_shared<LinearScale>());
      add_block({name, {layer}, [=](const at::Tensor& x, const Context& context) {
                   if (name == "b" && context.step == 1) {
                     if (in == "forward") throw std::runtime_error("no more");
                     torch::autograd::impl::set_post_acc_grad_hooks(layer->named_parameters()[in],
                                                                    std::make_unique<ThrowingHook>());
                   }
                   return dpbench::linear(x, layer->weight, {}) * layer->factor;
                 }});
    }
  }
};

class Faulty : public Workload {
 public:
  explicit Faulty(std::string in = "forward") : in_(std::move(in)) {}
  int64_t samples() const override { return 100; }
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<FaultyModel>(in_); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor&) const override { return output.mean(); }
  OptimizerSpec optimizer() const override { return {.learning_rate = 0.125}; }
  Batch batch(const at::Tensor& ids) const override {
    const at::Tensor input = at::ones({ids.size(0), 4});
    return {input, input, ids};
  }

 private:
  std::string in_;
};

// With zb-h1, the gradient of the weight of a linear layer is computed in W, all other gradients in I.
TEST(Pipeline, NamesTheActionThatFailed) {
  for (const auto& [schedule, in, action] : std::vector<std::array<std::string, 3>>{{"1f1b", "forward", "1F0"},
                                                                                    {"1f1b", "weight", "1B0"},
                                                                                    {"zb-h1", "factor", "1I0"},
                                                                                    {"zb-h1", "weight", "1W0"}}) {
    const Faulty workload(in);
    const auto errors = on_ranks(3, [&, &schedule = schedule](Rank& me) {
      const auto strategy = made_on(me.mesh("pp=3"), "pp", workload, {{"schedule", schedule}}, at::kFloat, {});
      for (int64_t step = 0; step < 2; ++step) {
        Phases phases;
        strategy->step(step, micro_batches(workload, 3, step), phases);
      }
    });
    expect_contains(errors.at(1), {"pp: rank 1", "action " + action + " ", "no more"});
  }
}

TEST(Pipeline, PublishesEachActionWhenItBegins) {
  const auto workload = gpt("tiny-llama");
  std::vector<std::string> actions;
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto strategy = made_on(me.mesh("pp=2"), "pp", *workload, {}, at::kFloat, {});
    Phases phases;
    if (me.rank == 1) phases.publish_actions([&](std::string_view action) { actions.emplace_back(action); });
    strategy->step(0, micro_batches(*workload, 1, 0), phases);
  }));
  const std::string of = " (stage 1, micro-batch 0)";
  EXPECT_EQ(actions,
            (std::vector<std::string>{"1RECV_F0" + of, "1F0" + of, "1B0" + of, "1SEND_B0" + of, "1SEND_B0" + of, ""}));
}

// A model of two blocks. The first one returns as many columns of its input as the first number of the input says.
struct TrimmingModel : Model {
  TrimmingModel() {
    for (const std::string name : {"a", "b"}) {
      const auto layer = register_module(name, std::make_shared<Scale>());
      add_block({name, {layer}, [=](const at::Tensor& x, const Context&) {
                   const int64_t columns = name == "a" ? x[0][0].item<int64_t>() : x.size(1);
                   return x.narrow(1, 0, columns) * layer->factor.narrow(0, 0, columns);
                 }});
    }
  }
};

class Trimming : public Faulty {
 public:
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<TrimmingModel>(); }
  Batch batch(const at::Tensor& ids) const override {
    const at::Tensor input = at::ones({ids.size(0), 4}) * (ids[0].item<int64_t>() == 0 ? 4 : 3);
    return {input, input, ids};
  }
};

TEST(Pipeline, NamesAStageWhoseOutputsDifferInSizeForInputsOfOneSize) {
  const Trimming workload;
  const auto errors = on_ranks(2, [&](Rank& me) {
    const auto strategy = made_on(me.mesh("pp=2"), "pp", workload, {}, at::kFloat, {});
    const std::vector<Batch> micro = {workload.batch(at::arange(0, 2)), workload.batch(at::arange(2, 4))};
    Phases phases;
    strategy->step(0, micro, phases);
  });
  expect_contains(errors.at(0), {"pp: rank 0", "action 0SEND_F1 ", "stage 0", "[2, 3]", "[2, 4]", "batch()"});
}

// Creates pp on three ranks, with other parameters on rank 1. Returns rank 1's error.
std::string error_of_rank_1_with(const Given& params) {
  const auto workload = gpt();
  return on_ranks(3, [&](Rank& me) { made_on(me.mesh("pp=3"), "pp", *workload, me.rank == 1 ? params : Given()); })
      .at(1);
}

TEST(Pipeline, NamesTheFirstDifferenceBetweenTheSchedulesOfTwoRanks) {
  expect_contains(error_of_rank_1_with({{"schedule", "gpipe"}}),
                  {"pp: rank 1 ", "\"rank 0, action 3, 0F3 ", "rank 0 has \"rank 0, action 3, 0B0 "});
  expect_contains(error_of_rank_1_with({{"schedule", "interleaved"}}), {"\"rank 0, action 3, 3F0 (stage 3"});
  expect_contains(error_of_rank_1_with({{"microbatches", "2"}}), {"\"microbatches=2\"", "\"microbatches=1\""});
  expect_contains(error_of_rank_1_with({{"blocks", "1+2+2"}}), {"\"blocks=1+2+2\"", "\"blocks=balanced\""});
  EXPECT_EQ(error_of_rank_1_with({}), "");
}

// A send that fails: wait() throws.
class LostSend : public c10d::Work {
 public:
  explicit LostSend(c10::intrusive_ptr<c10d::Work> sent) : sent_(std::move(sent)) {}
  bool wait(std::chrono::milliseconds timeout) override {
    sent_->wait(timeout);
    throw std::runtime_error("the network is gone");
  }

 private:
  c10::intrusive_ptr<c10d::Work> sent_;
};

// A backend in which each send that starts while `lost` is true fails.
class LosingBackend : public ForwardingBackend {
 public:
  LosingBackend(c10::intrusive_ptr<c10d::Backend> inner, const bool& lost)
      : ForwardingBackend(std::move(inner)), lost_(lost) {}

 protected:
  WorkPtr around(Call call) override {
    WorkPtr work = call.run();
    return lost_ && call.op == CollectiveOp::send ? WorkPtr(c10::make_intrusive<LostSend>(work)) : work;
  }

 private:
  const bool& lost_;
};

// A backend that reports each send as done at once, but reads the sent tensor later.
class HastyBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  ~HastyBackend() override {
    for (std::thread& one : late_) one.join();
  }

 protected:
  WorkPtr around(Call call) override {
    if (call.op != CollectiveOp::send) return call.run();
    late_.emplace_back([run = call.run] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      run()->wait();
    });
    const auto done = c10::make_intrusive<CommWork>(0, c10d::OpType::SEND, 0, std::vector<at::Tensor>());
    done->succeed();
    return done;
  }

 private:
  std::vector<std::thread> late_;
};

TEST(Pipeline, TheSettingPoisonMakesGradientsNanIfASendEndsBeforeItsTensorIsRead) {
  const auto workload = gpt("tiny-llama");
  for (const bool poison : {false, true}) {
    bool finite = false;
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      const Mesh mesh = me.mesh("pp=2").with_groups([&](const std::string&, const auto& group) {
        return wrapped_group(group, at::kCPU, [&](const c10::intrusive_ptr<c10d::Backend>& inner) {
          return me.rank == 0 ? inner : c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<HastyBackend>(inner));
        });
      });
      const auto strategy = made_on(mesh, "pp", *workload, {{"poison", poison ? "on" : "off"}}, at::kFloat, {});
      Phases phases;
      strategy->step(0, micro_batches(*workload, 2, 0), phases);
      const NamedTensors gradients = strategy->gradients();
      if (me.rank == 0)
        finite = std::ranges::all_of(gradients,
                                     [](const auto& one) { return one.second.isfinite().all().template item<bool>(); });
    }));
    EXPECT_EQ(finite, !poison);
  }
}

TEST(Pipeline, NamesASendThatFailsOnlyAfterItsActionHasEnded) {
  const auto workload = gpt("tiny-llama");
  const auto errors = on_ranks(2, [&](Rank& me) {
    bool lost = false;
    const Mesh mesh = me.mesh("pp=2").with_groups([&](const std::string&, const auto& group) {
      return wrapped_group(group, at::kCPU, [&](const c10::intrusive_ptr<c10d::Backend>& inner) {
        return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<LosingBackend>(inner, lost));
      });
    });
    const auto strategy = made_on(mesh, "pp", *workload, {}, at::kFloat, {});
    for (int64_t step = 0; step < 2; ++step) {
      // Sends fail in step 1, not in step 0: there the rank also sends shapes, and waits for these sends within the
      // action.
      lost = step == 1 && me.rank == 0;
      Phases phases;
      strategy->step(step, micro_batches(*workload, 2, step), phases);
    }
  });
  expect_contains(errors.at(0), {"pp: rank 0 ", "action 0SEND_F0 ", "is gone"});
}

TEST(Pipeline, NamesTheTiedParameterWhoseGradientFailedToArriveAndAFailedBroadcastOfTheLoss) {
  // The calls of rank 1 in a step: it receives the shape of an activation, then the activation, and sends its gradient.
  // It receives and sends the gradient of the tied embedding, and broadcasts the shape of the loss and the loss.
  expect_contains(error_of_call("pp", "pp=2", 3), {"pp: rank 1 ", "gradient", "model.embed_tokens.weight", "is gone"});
  expect_contains(error_of_call("pp", "pp=2", 5), {"pp: rank 1 ", "broadcast", "the loss", "is gone"});
}

TEST(Pipeline, RefusesUnsupportedSettingsNamingTheParameter) {
  expect_contains(refusal({{"blocks", "1+"}}), {"pp.blocks=1+", "2+3+1"});
  expect_contains(refusal({{"blocks", "1+1"}}), {"pp.blocks=1+1", "2 blocks", "the model"});
  expect_contains(refusal({{"microbatches", "2"}}), {"pp.microbatches=2", "running_mean", "--accumulate"});
  expect_contains(refusal({{"microbatches", "0"}}), {"pp.microbatches=0", "1 or more"});
}

TEST(Pipeline, RefusesAScheduleFileThatCannotRun) {
  expect_contains(refusal({{"file", "no-such.csv"}}), {"'no-such.csv'"});
  {
    const ScheduleFile swapped("0F0,0B0\n1B0,1F0\n");
    expect_contains(refusal({{"file", swapped.path()}}), {"pp.file=" + swapped.path(), "work-order", "1B0"});
  }
  {
    const ScheduleFile three("0F0,0B0\n1F0,1B0\n2F0,2B0\n");
    expect_contains(refusal({{"file", three.path()}}), {"3 lines", "2 ranks"});
  }
  {
    const ScheduleFile idle("0F0,0B0\n,\n");
    expect_contains(refusal({{"file", idle.path()}}), {idle.path(), "no computations"});
  }
  expect_contains(refusal({{"schedule", "dualpipe"}}), {"dualpipe", "two micro-batches"});
  const ScheduleFile right(split_csv);
  expect_contains(refusal({{"file", right.path()}}, "convnet", 2), {"3 micro-batches", "has 2"});
  expect_contains(refusal({{"file", right.path()}, {"schedule", "gpipe"}}), {"pp.file", "pp.schedule"});
}

}  // namespace
}  // namespace dpbench
