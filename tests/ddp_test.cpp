// What ddp refuses and says, how it lays out its buckets, and ranks that run out of rows; its gradients are the suite's.
#include <gtest/gtest.h>
#include <ATen/ATen.h>

#include <mutex>
#include <thread>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "harness/conform/threads.h"
#include "harness/conform/watching_backends.h"
#include "strategies/comm/backend.h"
#include "strategies/ddp/reduction.h"
#include "strategies/replica.h"
#include "strategies/strategy.h"

namespace dpbench {
namespace {

using Given = std::map<std::string, std::string>;

struct Rank {
  int rank = 0, world = 1;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<RecordingBackend> recorder;
  c10::intrusive_ptr<c10d::Store> store;

  void join_group(const std::string& keys) {
    const auto plain = make_process_group("threads", {.store = c10::make_intrusive<c10d::PrefixStore>(keys, store), .rank = rank, .world = world, .local_rank = rank, .local_world = world, .device = at::kCPU, .timeout = std::chrono::milliseconds(5000), .directory = ""});
    group = wrapped_group(plain, at::kCPU, [&](c10::intrusive_ptr<c10d::Backend> inner) {
      recorder = c10::make_intrusive<RecordingBackend>(inner);
      return c10::intrusive_ptr<c10d::Backend>(recorder);
    });
  }
};

// Ranks as threads; what they throw, by rank.
std::vector<std::string> on_ranks(int world, const std::function<void(Rank&)>& work) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> errors(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Rank me{rank, world, {}, {}, store};
        me.join_group("first");
        work(me);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

std::unique_ptr<Strategy> made(const std::string& name, const Rank& me, const Workload& workload, const Given& params,
                               at::ScalarType dtype = at::kDouble, std::optional<double> clip_norm = {}) {
  const StrategyInfo& info = strategy_registry().at(name);
  return info.make({.workload = workload, .devices = {at::kCPU}, .group = me.group, .init_seed = 3, .step_seed = 4, .dtype = dtype, .params = Params(info.params, params, name), .clip_norm = clip_norm});
}

std::unique_ptr<Strategy> ddp_on(const Rank& me, const Workload& workload, const Given& params,
                                 at::ScalarType dtype = at::kDouble) {
  return made("ddp", me, workload, params, dtype);
}

void expect_no_errors(const std::vector<std::string>& errors) {
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

// Two layers, the second of them used only where a test says so.
class Optional : public Model {
 public:
  explicit Optional(std::function<bool(const Context&)> uses) : uses_(std::move(uses)) {
    first_ = register_parameter("first", at::full({4, 4}, 0.5));
    second_ = register_parameter("second", at::full({4, 4}, 0.25));
  }
  at::Tensor forward(const at::Tensor& input, const Context& context) override {
    const at::Tensor x = at::linear(input, first_);
    return uses_(context) ? at::linear(x, second_) : x;
  }

 private:
  std::function<bool(const Context&)> uses_;
  at::Tensor first_, second_;
};

class Sometimes : public Workload {
 public:
  explicit Sometimes(std::function<bool(const Context&)> uses, double size = 1) : uses_(std::move(uses)), size_(size) {}
  int64_t samples() const override { return 64; }
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Optional>(uses_); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor&) const override { return output.mean(); }
  OptimizerSpec optimizer() const override { return {.learning_rate = 0.125}; }
  Batch batch(const at::Tensor& ids) const override {
    return {(ids.to(at::kFloat).unsqueeze(1) % 7).expand({-1, 4}) * size_, at::zeros({ids.size(0), 1}), ids};
  }

 private:
  std::function<bool(const Context&)> uses_;
  double size_;
};

const Sometimes& always() {
  static const Sometimes workload([](const Context&) { return true; });
  return workload;
}

Batch rows_of(const Workload& workload, int rank, int64_t step, int64_t count = 4) {
  return workload.batch(at::arange(count).add(rank * 8 + step * 24).remainder(workload.samples()));
}

StepResult one_step(Strategy& strategy, const Workload& workload, int rank, int64_t step) {
  Phases phases;
  const Batch micro[] = {rows_of(workload, rank, step)};
  return strategy.step(step, micro, phases);
}

std::vector<double> flat(const NamedTensors& tensors) {
  std::vector<double> values;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor all = tensor.detach().flatten().contiguous();
    values.insert(values.end(), all.data_ptr<double>(), all.data_ptr<double>() + all.numel());
  }
  return values;
}

std::string refusal(const Given& params) {
  try {
    const StrategyInfo& info = strategy_registry().at("ddp");
    promised(info, Params(info.params, params, "ddp"));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(DdpParameters, RefusesWhatDoesNotGoTogetherByName) {
  EXPECT_EQ(refusal({}), "nothing was refused");
  const std::vector<std::pair<Given, std::vector<std::string>>> bad = {
      {{{"join", "on"}, {"static_graph", "on"}}, {"ddp.join=on", "ddp.static_graph=on"}},
      {{{"join", "on"}, {"sync_batch_norm", "on"}}, {"ddp.join=on", "ddp.sync_batch_norm=on"}},
      {{{"join_divisor", "active"}}, {"ddp.join_divisor=active", "ddp.join=off"}},
      {{{"join", "on"}, {"join_divisor", "active"}, {"global_mean", "on"}}, {"ddp.global_mean=on"}},
      {{{"join_divisor", "half"}}, {"ddp.join_divisor=half", "initial, active"}},
      {{{"skip_unused", "on"}}, {"ddp.skip_unused=on", "ddp.find_unused=off"}},
      {{{"skip_unused", "on"}, {"find_unused", "on"}, {"join", "on"}}, {"ddp.skip_unused=on", "ddp.join=on"}},
      {{{"step_in_backward", "on"}, {"find_unused", "on"}}, {"ddp.step_in_backward=on", "ddp.find_unused=on"}},
      {{{"step_in_backward", "on"}, {"join", "on"}}, {"ddp.step_in_backward=on", "ddp.join=on"}},
      {{{"ignore", "w0+b0"}, {"join", "on"}}, {"ddp.ignore=w0+b0", "ddp.join=on"}},
      {{{"ignore", "w0"}, {"global_mean", "on"}}, {"ddp.ignore=w0", "ddp.global_mean=on"}},
      {{{"hook", "fp16+bf16"}}, {"ddp.hook=fp16+bf16", "none, fp16, bf16", "one hook"}},
      {{{"clip", "before"}}, {"ddp.clip=before", "refused"}},
      {{{"static_graph", "perhaps"}}, {"ddp.static_graph=perhaps"}},
      {{{"bucket_mb", "0"}}, {"ddp.bucket_mb"}}};
  for (const auto& [params, words] : bad)
    for (const auto& word : words) EXPECT_NE(refusal(params).find(word), std::string::npos) << word << ": " << refusal(params);
}

TEST(DdpParameters, RefusesTf32OnACpu) {
  for (const auto& error : on_ranks(1, [](Rank& me) { ddp_on(me, always(), {{"tf32", "on"}}); }))
    EXPECT_EQ(error, "ddp.tf32=on needs a GPU: a CPU has no TF32");
}

TEST(DdpParameters, RefuseAClipNormThatNoRankCouldKnow) {
  const auto said = [](const Given& params) {
    return on_ranks(1, [&](Rank& me) { made("ddp", me, always(), params, at::kDouble, 1.0); })[0];
  };
  EXPECT_NE(said({{"step_in_backward", "on"}}).find("ddp.step_in_backward=on and --clip-norm"), std::string::npos);
  EXPECT_NE(said({{"ignore", "second"}}).find("ddp.ignore=second and --clip-norm"), std::string::npos);
}

TEST(DdpUnused, IsAnErrorThatNamesTheParameterAndTheWayOut) {
  const Sometimes never([](const Context&) { return false; });
  for (const auto& error : on_ranks(2, [&](Rank& me) {
         const auto ddp = ddp_on(me, never, {});
         one_step(*ddp, never, me.rank, 0);
       })) {
    EXPECT_NE(error.find("unused: second"), std::string::npos) << error;
    EXPECT_NE(error.find("ddp.find_unused=on"), std::string::npos) << error;
  }
}

TEST(DdpUnused, LeavesNoGradientWhereNoRankUsedItAndTheMeanWhereOneDid) {
  const Sometimes on_rank_1([](const Context& context) { return context.step < 2 && context.ids[0].item<int64_t>() % 24 >= 8; });
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    for (const char* views : {"on", "off"}) {
      const auto ddp = ddp_on(me, on_rank_1, {{"find_unused", "on"}, {"gradient_as_bucket_view", views}});
      for (int64_t step = 0; step < 3; ++step) {
        one_step(*ddp, on_rank_1, me.rank, step);
        const at::Tensor second = ddp->gradients()[1].second;
        EXPECT_EQ(second.defined(), step < 2) << "step " << step << " views " << views;
        if (step < 2) {
          EXPECT_TRUE(second.any().item<bool>());
        }
      }
    }
  }));
}

// Computes with its second layer, but nothing of that is in its output.
class Idle : public Model {
 public:
  Idle() {
    first_ = register_parameter("first", at::full({4, 4}, 0.5));
    second_ = register_parameter("second", at::full({4, 4}, 0.25));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    const at::Tensor x = at::linear(input, first_);
    aside_ = at::linear(x, second_);
    return x;
  }

 private:
  at::Tensor first_, second_, aside_;
};

class Aside : public Sometimes {
 public:
  Aside() : Sometimes({}) {}
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Idle>(); }
};

TEST(DdpUnused, IsWhatIsComputedButNotInTheOutput) {
  const Aside aside;
  for (const auto& error : on_ranks(2, [&](Rank& me) { one_step(*ddp_on(me, aside, {}), aside, me.rank, 0); }))
    EXPECT_NE(error.find("unused: second"), std::string::npos) << error;
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, aside, {{"find_unused", "on"}});
    for (int64_t step = 0; step < 3; ++step) one_step(*ddp, aside, me.rank, step);
    EXPECT_TRUE(ddp->gradients()[0].second.any().item<bool>());
    EXPECT_FALSE(ddp->gradients()[1].second.defined());
  }));
}

// What the plain model makes of the rows of both ranks, the mean of their gradients.
std::vector<at::Tensor> mean_gradients(const Workload& workload, int world, int64_t step) {
  std::vector<at::Tensor> sum;
  for (int rank = 0; rank < world; ++rank) {
    const Replica alone(workload, at::kCPU, at::kDouble, 3, 4);
    const Batch batch = alone.to_device(rows_of(workload, rank, step));
    workload.loss(alone.forward(step, batch), batch.target).backward();
    for (size_t p = 0; p < alone.trainable().size(); ++p) {
      const at::Tensor part = alone.trainable()[p].tensor.grad() / world;
      if (rank == 0) sum.push_back(part);
      else sum[p] += part;
    }
  }
  return sum;
}

TEST(DdpOutputs, ThatNobodyUsesHoldUpNothing) {
  for (const char* search : {"off", "on"})
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      const Replica replica(always(), at::kCPU, at::kDouble, 3, 4);
      ddp::Reduction reduction(me.group, replica.trainable(),
                               ddp::options_of(Params(ddp::parameters(), {{"find_unused", search}}, "ddp")));
      for (int64_t step = 0; step < 6; ++step) {
        replica.clear_gradients();
        const Batch batch = replica.to_device(rows_of(always(), me.rank, step));
        reduction.before_forward(true);
        const at::Tensor output = replica.forward(step, batch);
        reduction.before_backward(output);
        if (step % 3 < 2) continue;  // of these outputs nothing is asked
        always().loss(output, batch.target).backward();
        reduction.after_backward();
        const auto expected = mean_gradients(always(), 2, step);
        for (size_t p = 0; p < expected.size(); ++p)
          EXPECT_TRUE(at::allclose(replica.trainable()[p].tensor.grad(), expected[p], 1e-13)) << "step " << step;
      }
    }));
}

TEST(DdpStaticGraph, RefusesAGraphThatChangesNamingTheParameter) {
  const Sometimes first_step([](const Context& context) { return context.step == 0; });
  for (const auto& error : on_ranks(2, [&](Rank& me) {
         const auto ddp = ddp_on(me, first_step, {{"static_graph", "on"}});
         for (int64_t step = 0; step < 2; ++step) one_step(*ddp, first_step, me.rank, step);
       })) {
    EXPECT_NE(error.find("second"), std::string::npos) << error;
    EXPECT_NE(error.find("ddp.static_graph=on"), std::string::npos) << error;
  }
}

TEST(DdpStaticGraph, LearnsInTheFirstStepWhatIsNeverUsed) {
  const Sometimes never([](const Context&) { return false; });
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, never, {{"static_graph", "on"}});
    for (int64_t step = 0; step < 4; ++step) one_step(*ddp, never, me.rank, step);
    EXPECT_TRUE(ddp->gradients()[0].second.defined());
    EXPECT_FALSE(ddp->gradients()[1].second.defined());
  }));
}

// A model of these tensors.
class OfTensors : public Workload {
 public:
  explicit OfTensors(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {}
  int64_t samples() const override { return 64; }
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Holder>(parameters_); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor&) const override { return output.mean(); }
  OptimizerSpec optimizer() const override { return {}; }
  Batch batch(const at::Tensor& ids) const override { return {ids.to(at::kFloat), ids, ids}; }

 private:
  class Holder : public Model {
   public:
    explicit Holder(const std::vector<at::Tensor>& parameters) {
      for (size_t i = 0; i < parameters.size(); ++i)
        register_parameter("p" + std::to_string(i), parameters[i].clone(), parameters[i].is_floating_point());
    }
    at::Tensor forward(const at::Tensor& input, const Context&) override { return input; }
  };
  std::vector<at::Tensor> parameters_;
};

// What rank 1 says where rank 0 has `zero` and it has `one`.
std::string mismatch(const std::vector<at::Tensor>& zero, const std::vector<at::Tensor>& one) {
  return on_ranks(2, [&](Rank& me) {
    const OfTensors workload(me.rank == 0 ? zero : one);
    ddp_on(me, workload, {}, at::kFloat);
    if (me.rank == 0) throw std::runtime_error("rank 0 noticed nothing");
  })[1];
}

TEST(DdpModels, ThatDifferBetweenRanksAreAnError) {
  const at::Tensor plain = at::zeros({2, 3, 4, 5});
  EXPECT_EQ(mismatch({plain}, {plain}), "");
  EXPECT_NE(mismatch({plain}, {plain, plain}).find("where rank 0 has nothing more"), std::string::npos);
  EXPECT_NE(mismatch({plain}, {at::zeros({2, 3, 5, 4})}).find("shape [2, 3, 5, 4]"), std::string::npos);
  EXPECT_NE(mismatch({plain}, {plain.contiguous(at::MemoryFormat::ChannelsLast)}).find("strides"), std::string::npos);
}

TEST(DdpModels, WithoutAGradientAreRefused) {
  for (const auto& error : on_ranks(1, [](Rank& me) { ddp_on(me, OfTensors({at::zeros({2}, at::kLong)}), {}, at::kFloat); }))
    EXPECT_EQ(error, "ddp: no parameter of this model requires a gradient");
}

// Reductions of gradients in one step, in bytes.
std::vector<int64_t> reductions(const Rank& me, Strategy& strategy, std::span<const Batch> micro, int64_t step) {
  Phases phases;
  me.recorder->start(false);
  strategy.step(step, micro, phases);
  std::vector<int64_t> bytes;
  for (const Collective& collective : me.recorder->stop())
    if (collective.floating && collective.op == "allreduce") bytes.push_back(collective.bytes);
  return bytes;
}

TEST(DdpBuckets, AreRebuiltInTheOrderOfReadinessWithinTheirCaps) {
  const auto mlp = workload_registry().at("probe-mlp").make({});
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, *mlp, {{"bucket_mb", "0.0005"}, {"first_bucket_mb", "0.0002"}});
    const Batch micro[] = {rows_of(*mlp, me.rank, 0)};
    // Of float64: w0 432 and b0 72 bytes, w1 504 and b1 56, w2 168 and b2 24; the last layer's are ready first.
    EXPECT_EQ(reductions(me, *ddp, micro, 0), (std::vector<int64_t>{1256}));
    const auto rebuilt = reductions(me, *ddp, micro, 1);
    int64_t sum = 0;
    for (const int64_t bytes : rebuilt) sum += bytes;
    EXPECT_EQ(sum, 1256);
    ASSERT_GE(rebuilt.size(), 3U);
    EXPECT_LT(rebuilt[0], 432);  // w0 is not in the first
    EXPECT_EQ(reductions(me, *ddp, micro, 2), rebuilt);
  }));
}

TEST(DdpUnused, LeavesOutABucketThatNobodyUsesWhereAsked) {
  const Sometimes never([](const Context&) { return false; });
  for (const char* skip : {"off", "on"})
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      const auto ddp = ddp_on(me, never, {{"find_unused", "on"}, {"skip_unused", skip}, {"bucket_mb", "0.0001"}});
      for (int64_t step = 0; step < 3; ++step) {
        const Batch micro[] = {rows_of(never, me.rank, step)};
        EXPECT_EQ(reductions(me, *ddp, micro, step).size(), skip == std::string("on") ? 1U : 2U) << "step " << step;
        EXPECT_TRUE(ddp->gradients()[0].second.any().item<bool>());
        EXPECT_FALSE(ddp->gradients()[1].second.defined());
      }
    }));
}

TEST(DdpStepInBackward, StepsEveryBucketOnceBeforeTheBackwardPassReturns) {
  const auto mlp = workload_registry().at("probe-mlp").make({});
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const Replica replica(*mlp, at::kCPU, at::kDouble, 3, 4);
    std::mutex guard;
    std::vector<std::vector<at::Tensor>> stepped;
    const Given params = {{"step_in_backward", "on"}, {"bucket_mb", "0.0005"}, {"first_bucket_mb", "0.0002"}};
    ddp::Reduction reduction(me.group, replica.trainable(), ddp::options_of(Params(ddp::parameters(), params, "ddp")),
                             [&](const auto& parameters, const auto& gradients) {
                               const std::lock_guard lock(guard);
                               EXPECT_EQ(parameters.size(), gradients.size());
                               stepped.push_back(parameters);
                             });
    for (int64_t step = 0; step < 3; ++step) {
      stepped.clear();
      const Batch batch = replica.to_device(rows_of(*mlp, me.rank, step));
      reduction.before_forward(/*last=*/true);
      const at::Tensor output = replica.forward(step, batch);
      reduction.before_backward(output);
      mlp->loss(output, batch.target).backward();
      size_t count = 0;
      for (const auto& bucket : stepped) count += bucket.size();
      EXPECT_EQ(count, 6U);
      EXPECT_TRUE(step == 0 || stepped.size() >= 3) << stepped.size() << " buckets in step " << step;
      reduction.after_backward();
    }
  }));
}

TEST(DdpStepInBackward, GivesTheBitsOfSteppingAfterwards) {
  const auto mlp = workload_registry().at("probe-mlp").make({});
  for (const Given& more : std::vector<Given>{{}, {{"hook", "fp16"}}, {{"static_graph", "on"}}, {{"gradient_as_bucket_view", "off"}}, {{"ignore", "w1"}}})
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      Given within = {{"step_in_backward", "on"}, {"bucket_mb", "0.0005"}}, after = {{"bucket_mb", "0.0005"}};
      within.insert(more.begin(), more.end());
      after.insert(more.begin(), more.end());
      const auto one = ddp_on(me, *mlp, within), other = ddp_on(me, *mlp, after);
      for (int64_t step = 0; step < 4; ++step) {
        Phases phases;
        const Batch micro[] = {rows_of(*mlp, me.rank, 2 * step), rows_of(*mlp, me.rank, 2 * step + 1)};
        one->step(step, micro, phases);
        other->step(step, micro, phases);
        const auto found = one->parameters(), expected = other->parameters();
        for (size_t p = 0; p < expected.size(); ++p)
          EXPECT_TRUE(at::equal(found[p].second, expected[p].second)) << expected[p].first << ", step " << step;
      }
    }));
}

TEST(DdpIgnore, PassesEveryCheckOfWhatIsSharedAndOfWhatIsEachRanksOwn) {
  for (const Given& params : std::vector<Given>{{{"ignore", "b0+w2"}}, {{"ignore", "w1"}, {"step_in_backward", "on"}}, {{"ignore", "w1"}, {"hook", "fp16"}}})
    for (const char* workload : {"probe-mlp", "probe-mlp-sgd"}) {
      const auto rows = check_in_threads({.strategy = strategy_registry().at("ddp"), .workload = workload_registry().at(workload), .params = params});
      size_t passed = 0;
      for (const auto& row : rows) {
        EXPECT_NE(row.status, "failed") << row.name << ": " << row.detail;
        passed += row.status == "passed";
      }
      EXPECT_GE(passed, 18U);
    }
}

TEST(DdpIgnore, LeavesEachRankItsOwnAndReducesTheRest) {
  const auto mlp = workload_registry().at("probe-mlp").make({});
  std::vector<double> ends[2], shared[2];
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, *mlp, {{"ignore", "w1+b1"}});
    const Batch micro[] = {rows_of(*mlp, me.rank, 0)};
    EXPECT_EQ(reductions(me, *ddp, micro, 0), (std::vector<int64_t>{432 + 72 + 168 + 24}));
    NamedTensors own, others;
    for (const auto& named : ddp->parameters()) (named.first == "w1" || named.first == "b1" ? own : others).push_back(named);
    ends[me.rank] = flat(own);
    shared[me.rank] = flat(others);
  }));
  EXPECT_NE(ends[0], ends[1]);
  EXPECT_EQ(shared[0], shared[1]);
}

TEST(DdpIgnore, RefusesNamesThatTheModelLacksAndAllOfThem) {
  const auto said = [](const std::string& names) {
    return on_ranks(1, [&](Rank& me) { ddp_on(me, always(), {{"ignore", names}}); })[0];
  };
  EXPECT_EQ(said("third"), "ddp.ignore=third: the model has no parameter third to train; it has: first, second");
  EXPECT_EQ(said("first+second"), "ddp.ignore=first+second leaves no parameter to reduce");
}

// Activation checkpointing as torch's reentrant one: the layer's weight is no input of the function, and its gradient
// comes of a backward pass within the backward pass.
struct Reentrant : torch::autograd::Function<Reentrant> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor* weight, const at::Tensor& input) {
    context->save_for_backward({input});
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    return at::tanh(at::linear(input, *weight));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto* weight = reinterpret_cast<const at::Tensor*>(context->saved_data["weight"].toInt());
    const at::AutoGradMode with_gradients(true);
    const at::Tensor input = context->get_saved_variables()[0].detach().requires_grad_();
    torch::autograd::backward({at::tanh(at::linear(input, *weight))}, {gradients[0]});
    return {at::Tensor(), input.grad()};
  }
};

class Checkpointed : public Sometimes {
 public:
  Checkpointed(int calls, bool recompute) : Sometimes({}), calls_(calls), recompute_(recompute) {}
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Layers>(calls_, recompute_); }

 private:
  class Layers : public Model {
   public:
    Layers(int calls, bool recompute) : calls_(calls), recompute_(recompute) {
      first_ = register_parameter("first", at::full({4, 4}, 0.0625));
      second_ = register_parameter("second", at::full({4, 4}, 0.125));
    }
    at::Tensor forward(const at::Tensor& input, const Context&) override {
      at::Tensor x = at::linear(input, first_);
      for (int i = 0; i < calls_; ++i) x = recompute_ ? Reentrant::apply(&second_, x) : at::tanh(at::linear(x, second_));
      return x;
    }

   private:
    int calls_;
    bool recompute_;
    at::Tensor first_, second_;
  };
  int calls_;
  bool recompute_;
};

void expect_checkpoints_reduced(int calls, const Given& params) {
  const Checkpointed workload(calls, true), plain(calls, false);
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    for (int64_t steps = 1; steps < 4; ++steps) {  // the last step's gradient, at weights that only it has changed
      const auto ddp = ddp_on(me, workload, params), other = ddp_on(me, plain, {});
      for (int64_t step = 0; step < steps; ++step) {
        one_step(*ddp, workload, me.rank, step);
        one_step(*other, plain, me.rank, step);
      }
      for (size_t p = 0; p < 2; ++p)
        EXPECT_TRUE(at::allclose(ddp->gradients()[p].second, other->gradients()[p].second, 1e-12)) << "parameter " << p << ", " << steps << " steps";
      if (steps == 1) {
        EXPECT_TRUE(at::allclose(ddp->gradients()[1].second, mean_gradients(plain, 2, 0)[1], 1e-12));
      }
    }
  }));
}

TEST(DdpCheckpoint, OfALayerOnceIsReduced) {
  expect_checkpoints_reduced(1, {});
  expect_checkpoints_reduced(1, {{"static_graph", "on"}});
}

TEST(DdpCheckpoint, OfALayerTwiceNeedsAStaticGraph) {
  expect_checkpoints_reduced(2, {{"static_graph", "on"}});
  const Checkpointed workload(2, true);
  for (const auto& error : on_ranks(2, [&](Rank& me) { one_step(*ddp_on(me, workload, {}), workload, me.rank, 0); }))
    EXPECT_NE(error.find("ready only once"), std::string::npos) << error;
}

TEST(DdpRecovery, GoesOnOverANewGroupAfterOneThatBroke) {
  const auto mlp = workload_registry().at("probe-mlp").make({});
  std::vector<double> ends[2][3];
  for (const bool breaks : {false, true})
    expect_no_errors(on_ranks(3, [&](Rank& me) {
      auto ddp = ddp_on(me, *mlp, {});
      one_step(*ddp, *mlp, me.rank, 0);
      const Snapshot kept = snapshot_of(*ddp);
      ddp.reset();
      if (breaks) {
        std::vector<at::Tensor> unlike = {at::ones({me.rank == 1 ? 3 : 2})};
        EXPECT_THROW(me.group->allreduce(unlike)->wait(), std::exception);
        me.join_group("second");
      }
      ddp = ddp_on(me, *mlp, {});
      ddp->load(kept);
      one_step(*ddp, *mlp, me.rank, 1);
      ends[breaks][me.rank] = flat(ddp->parameters());
    }));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(ends[0][rank].empty());
    EXPECT_EQ(ends[0][rank], ends[1][rank]);
  }
}

TEST(DdpAccumulation, ReducesOnlyInTheLastMicroBatch) {
  for (const Given& params : std::vector<Given>{{}, {{"find_unused", "on"}}, {{"static_graph", "on"}}, {{"hook", "fp16"}}})
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      const auto ddp = ddp_on(me, always(), params);
      const Batch one[] = {rows_of(always(), me.rank, 0)};
      const Batch three[] = {rows_of(always(), me.rank, 0), rows_of(always(), me.rank, 1), rows_of(always(), me.rank, 2)};
      for (int64_t step = 0; step < 4; ++step) {
        const auto few = reductions(me, *ddp, one, 2 * step), many = reductions(me, *ddp, three, 2 * step + 1);
        EXPECT_EQ(few.size(), 1U);
        if (params.contains("static_graph") && step == 0) continue;  // its first two passes are reduced wherever they stand
        EXPECT_EQ(many, few) << "step " << step;
      }
    }));
}

TEST(DdpHooks, DivideBeforeTheySumSoThatFloat16DoesNotOverflow) {
  constexpr double huge = 60000;  // of a gradient: two of them are beyond float16's 65504
  const Sometimes large([](const Context&) { return false; }, huge * 4 / 3);
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, large, {{"hook", "fp16"}, {"find_unused", "on"}}, at::kFloat);
    Phases phases;
    const Batch micro[] = {large.batch(at::full({4}, 3, at::kLong))};
    ddp->step(0, micro, phases);
    const at::Tensor gradient = ddp->gradients()[0].second;
    EXPECT_GT(gradient.max().item<double>(), 32768) << "too small to tell";
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  }));
}

TEST(DdpAutocast, PassesEveryCheckInBfloat16) {
  for (const Given& params : std::vector<Given>{{}, {{"hook", "bf16"}}, {{"find_unused", "on"}}}) {
    const auto rows = check_in_threads({.strategy = strategy_registry().at("ddp"),
                                        .workload = workload_registry().at("probe-mlp"),
                                        .dtype = at::kBFloat16,
                                        .params = params});
    for (const auto& row : rows) EXPECT_NE(row.status, "failed") << row.name << ": " << row.detail;
    EXPECT_GE(rows.size(), 20U);
  }
}

// Rank 1 has two steps, rank 0 five; it may say so step by step, or leave at once and call finish().
std::vector<double> joined(const Rank& me, const Given& more, bool leaves_at_once) {
  Given params = {{"join", "on"}};
  params.insert(more.begin(), more.end());
  const auto ddp = ddp_on(me, always(), params);
  Phases phases;
  for (int64_t step = 0; step < 5; ++step) {
    const bool has_rows = me.rank == 0 || step < 2;
    if (!has_rows && leaves_at_once) break;
    const Batch micro[] = {rows_of(always(), me.rank, step)};
    ddp->step(step, has_rows ? std::span<const Batch>(micro) : std::span<const Batch>(), phases);
  }
  ddp->finish();
  return flat(ddp->parameters());
}

TEST(DdpJoin, KeepsRanksTogetherWhenOneLeavesEarly) {
  std::vector<double> ends[2][2];
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    for (const bool at_once : {false, true}) ends[me.rank][at_once] = joined(me, {}, at_once);
  }));
  EXPECT_EQ(ends[0][0], ends[1][0]);
  EXPECT_EQ(ends[0][0], ends[0][1]);
  EXPECT_EQ(ends[0][0], ends[1][1]);
}

TEST(DdpJoin, DividesByTheInitialWorldOrByTheActiveRanks) {
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    at::Tensor initial, active;
    for (const char* divisor : {"initial", "active"}) {
      const auto ddp = ddp_on(me, always(), {{"join", "on"}, {"join_divisor", divisor}});
      Phases phases;
      const Batch micro[] = {rows_of(always(), 0, 0)};
      ddp->step(0, me.rank == 0 ? std::span<const Batch>(micro) : std::span<const Batch>(), phases);
      (divisor == std::string("initial") ? initial : active) = ddp->gradients()[0].second.clone();
    }
    EXPECT_TRUE(active.any().item<bool>());
    EXPECT_TRUE(at::equal(active, initial * 2));
  }));
}

void expect_close(const NamedTensors& found, const NamedTensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    for (const auto& [other, mine] : found)
      if (other == name) {
        EXPECT_TRUE(at::allclose(mine, tensor, 1e-13, 1e-15)) << name;
      }
}

class ZeroOne : public testing::TestWithParam<int> {};

TEST_P(ZeroOne, IsEqualToDdpInEveryStepAndTakesItsState) {
  const auto mlp = workload_registry().at("probe-mlp").make({});
  expect_no_errors(on_ranks(GetParam(), [&](Rank& me) {
    const auto ddp = made("ddp", me, *mlp, {}), zero1 = made("zero1", me, *mlp, {});
    for (int64_t step = 0; step < 3; ++step) {
      one_step(*ddp, *mlp, me.rank, step);
      one_step(*zero1, *mlp, me.rank, step);
      expect_close(zero1->gradients(), ddp->gradients());
      expect_close(zero1->parameters(), ddp->parameters());
      expect_close(zero1->state(), ddp->state());
    }
    const auto resumed = made("zero1", me, *mlp, {});
    resumed->load(snapshot_of(*ddp));
    one_step(*ddp, *mlp, me.rank, 3);
    one_step(*resumed, *mlp, me.rank, 3);
    expect_close(resumed->parameters(), ddp->parameters());
    expect_close(resumed->state(), ddp->state());
  }));
}

TEST_P(ZeroOne, PassesEveryCheck) {
  for (const char* workload : {"probe-mlp", "probe-mixed"}) {
    const auto rows = check_in_threads({.strategy = strategy_registry().at("zero1"), .workload = workload_registry().at(workload), .world = GetParam()});
    for (const auto& row : rows) EXPECT_NE(row.status, "failed") << row.name << ": " << row.detail;
    EXPECT_GE(rows.size(), 20U);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, ZeroOne, testing::Values(1, 2, 3, 4));

TEST(ZeroOneAndLocalSgd, SayByNameWhatTheyCannotDo) {
  const auto said = [](const std::string& name, const Given& params, const Workload& workload, bool rows) {
    return on_ranks(1, [&](Rank& me) {
      const auto strategy = made(name, me, workload, params);
      Phases phases;
      const Batch micro[] = {rows_of(workload, 0, 0)};
      strategy->step(3, rows ? std::span<const Batch>(micro) : std::span<const Batch>(), phases);
    })[0];
  };
  const Sometimes never([](const Context&) { return false; });
  EXPECT_EQ(said("local-sgd", {{"average_every", "0"}}, always(), true), "local-sgd.average_every=0 must be 1 or more");
  EXPECT_NE(said("local-sgd", {{"average_every", "often"}}, always(), true).find("local-sgd.average_every=often"), std::string::npos);
  EXPECT_NE(said("local-sgd", {}, always(), false).find("no rows in step 3"), std::string::npos);
  EXPECT_NE(said("zero1", {}, always(), false).find("no rows in step 3"), std::string::npos);
  EXPECT_NE(said("zero1", {}, never, true).find("unused: second"), std::string::npos);
}

TEST(DdpJoin, IsNeededWhereARankHasNoRowsAndTheErrorSaysSo) {
  for (const auto& error : on_ranks(1, [](Rank& me) {
         Phases phases;
         ddp_on(me, always(), {})->step(7, {}, phases);
       }))
    EXPECT_EQ(error, "ddp: this rank has no rows in step 7; --param ddp.join=on lets it go on without");
}

}  // namespace
}  // namespace dpbench
