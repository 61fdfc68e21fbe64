// Errors, bucket layout, buffers and uneven inputs of ddp. The conformance suite checks the gradients of ddp.
#include <torch/nn/modules/batchnorm.h>

#include "harness/conform/evidence/evidence.h"
#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/scenario/altered_workload.h"
#include "strategies/comm/shm/blocks.h"
#include "tests/ranks/ddp_ranks.h"
#include "tests/ranks/threads.h"
#include "tests/support/contains.h"

namespace dpbench {
namespace {

using namespace ddp_ranks;

std::string refusal(const Given& params) {
  try {
    const StrategyInfo& info = strategy_registry().at("ddp");
    promised(info, Params(info.params, params, "ddp"));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(DdpParameters, InvalidValuesAndValuesThatCannotBeCombinedAreRejectedNamingThem) {
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
      {{{"clip", "before"}}, {"ddp.clip=before", "ddp.clip=after"}},
      {{{"gradient_as_bucket_view", "sometimes"}}, {"ddp.gradient_as_bucket_view=sometimes"}},
      {{{"broadcast_buffers", "yes"}}, {"ddp.broadcast_buffers=yes"}},
      {{{"static_graph", "perhaps"}}, {"ddp.static_graph=perhaps"}},
      {{{"bucket_mb", "0"}}, {"ddp.bucket_mb"}}};
  for (const auto& [params, words] : bad)
    for (const auto& word : words) EXPECT_TRUE(mentions(refusal(params), {word}));
}

TEST(DdpParameters, RejectTf32OnACpu) {
  for (const auto& error : on_ranks(1, [](Rank& me) { ddp_on(me, always(), {{"tf32", "on"}}); }))
    EXPECT_TRUE(mentions(error, {"ddp.tf32=on", "CPU"}));
}

TEST(DdpParameters, RejectSyncBatchNormForAModelWithoutBatchNorm) {
  for (const int world : {1, 2})
    for (const auto& error : on_ranks(world, [](Rank& me) { ddp_on(me, always(), {{"sync_batch_norm", "on"}}); }))
      EXPECT_TRUE(mentions(error, {"ddp.sync_batch_norm=on", "workloads/layers/batch_norm.h", "--workload"}));
}

// A workload whose model has torch's own BatchNorm layer, as a third-party model may.
class ItsOwnNorm : public SecondLayerIf {
 public:
  ItsOwnNorm() : SecondLayerIf({}) {}
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Normed>(); }

 private:
  struct Normed : Model {
    Normed() { register_module("norm", torch::nn::BatchNorm1d(4)); }
    at::Tensor forward(const at::Tensor& input, const Context&) override { return input; }
  };
};

TEST(DdpParameters, RejectSyncBatchNormForTorchsOwnBatchNormLayers) {
  const ItsOwnNorm workload;
  for (const auto& error : on_ranks(2, [&](Rank& me) { ddp_on(me, workload, {{"sync_batch_norm", "on"}}); }))
    EXPECT_TRUE(mentions(error, {"norm", "torch"}));
}

TEST(DdpParameters, RejectClipNormWithStepInBackwardOrIgnoredParameters) {
  const auto error_of = [](const Given& params) {
    return on_ranks(1, [&](Rank& me) { made("ddp", me, always(), params, at::kDouble, 1.0); })[0];
  };
  EXPECT_TRUE(mentions(error_of({{"step_in_backward", "on"}}), {"ddp.step_in_backward=on", "--clip-norm"}));
  EXPECT_TRUE(mentions(error_of({{"ignore", "second"}}), {"ddp.ignore=second", "--clip-norm"}));
}

// A workload whose model multiplies its input by the mean of each given parameter in turn. The parameter with index
// `frozen` is not trained.
class GivenParameters : public Workload {
 public:
  explicit GivenParameters(std::vector<at::Tensor> parameters, std::optional<size_t> frozen = {})
      : parameters_(std::move(parameters)), frozen_(frozen) {}
  int64_t samples() const override { return 64; }
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Holder>(parameters_, frozen_); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor&) const override { return output.mean(); }
  OptimizerSpec optimizer() const override { return {}; }
  Batch batch(const at::Tensor& ids) const override { return {ids.to(at::kFloat), ids, ids}; }

 private:
  class Holder : public Model {
   public:
    Holder(const std::vector<at::Tensor>& parameters, std::optional<size_t> frozen) {
      for (size_t i = 0; i < parameters.size(); ++i)
        register_parameter("p" + std::to_string(i), parameters[i].clone(),
                           parameters[i].is_floating_point() && i != frozen);
    }
    at::Tensor forward(const at::Tensor& input, const Context&) override {
      at::Tensor x = input;
      for (const at::Tensor& parameter : parameters()) x = x * parameter.mean();
      return x;
    }
  };
  std::vector<at::Tensor> parameters_;
  std::optional<size_t> frozen_;
};

// Returns rank 1's error message if rank 0 has the parameters `zero` and rank 1 has the parameters `one`. On rank 1 the
// parameter with index `frozen` is not trained.
std::string mismatch(const std::vector<at::Tensor>& zero, const std::vector<at::Tensor>& one,
                     std::optional<size_t> frozen = {}) {
  return on_ranks(2, [&](Rank& me) {
    const GivenParameters workload = me.rank == 0 ? GivenParameters(zero) : GivenParameters(one, frozen);
    ddp_on(me, workload, {}, at::kFloat);
    if (me.rank == 0) throw std::runtime_error("rank 0 reported no error");
  })[1];
}

TEST(DdpModels, ModelsThatDifferBetweenRanksAreRejected) {
  const at::Tensor plain = at::zeros({2, 3, 4, 5});
  EXPECT_EQ(mismatch({plain}, {plain}), "");
  EXPECT_TRUE(mentions(mismatch({plain}, {plain, plain}), {"rank 0", "p1"}));
  EXPECT_TRUE(mentions(mismatch({plain}, {at::zeros({2, 3, 5, 4})}), {"[2, 3, 5, 4]"}));
  EXPECT_TRUE(mentions(mismatch({plain}, {plain.contiguous(at::MemoryFormat::ChannelsLast)}), {"strides"}));
  EXPECT_TRUE(
      mentions(mismatch({plain, plain}, {plain, plain}, 1), {"p1", "[2, 3, 4, 5]", "Float", "not trained", "rank 0"}));
}

TEST(DdpModels, ModelsWithoutTrainableParametersAreRejected) {
  for (const auto& error :
       on_ranks(1, [](Rank& me) { ddp_on(me, GivenParameters({at::zeros({2}, at::kLong)}), {}, at::kFloat); }))
    EXPECT_TRUE(mentions(error, {"ddp", "gradient"}));
}

TEST(DdpBuckets, AreRebuiltInReadyOrderEachFullOnceItReachesItsCap) {
  const auto mlp = workload_registry().at("probe-mlp").make({});
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, *mlp, {{"bucket_mb", "0.0005"}, {"first_bucket_mb", "0.0002"}});
    const Batch micro[] = {batch_of(*mlp, me.rank, 0)};
    // Gradient sizes in float64: w0 432 bytes, b0 72, w1 504, b1 56, w2 168, b2 24. The gradients of the last layer are
    // ready first.
    EXPECT_EQ(reductions(me, *ddp, micro, 0), (std::vector<int64_t>{1256}));
    // A bucket is full when it reaches its cap: 209 bytes for the first bucket, 524 for the others. So the buckets are
    // {b2, w2, b1}, {w1, b0} and {w0}.
    for (const int64_t step : {1, 2})
      EXPECT_EQ(reductions(me, *ddp, micro, step), (std::vector<int64_t>{248, 576, 432}));
    const auto figures = ddp->figures();
    EXPECT_EQ(figures.at("reducer_gradient_ready_order"),
              // parameters are numbered in registration order, so the last one is ready first
              (std::vector<double>{5, 4, 3, 2, 1, 0}));
    EXPECT_EQ(figures.at("reducer_bucket_bytes"), (std::vector<double>{248, 576, 432}));
  }));
}

TEST(DdpBuckets, TheFirstHasADefaultCapOf1MebibyteAndTheOthersOf25) {
  constexpr int64_t mebibyte = 1024 * 1024, floats = mebibyte / 4;
  std::vector<at::Tensor> parameters;
  for (const int64_t size : {floats, 9 * floats, 16 * floats, 3 * floats / 4, floats / 2})
    parameters.push_back(at::ones({size}));
  const GivenParameters workload(parameters);
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, workload, {}, at::kFloat);
    const Batch micro[] = {batch_of(workload, me.rank, 0)};
    EXPECT_EQ(reductions(me, *ddp, micro, 0), (std::vector<int64_t>{109 * mebibyte / 4}));
    // Buckets are filled from the last parameter on. 1/2 MiB stays below the cap of the first bucket and 3/4 MiB more
    // exceed it. 16 + 9 MiB reach the cap of the second bucket exactly.
    EXPECT_EQ(reductions(me, *ddp, micro, 1), (std::vector<int64_t>{5 * mebibyte / 4, 25 * mebibyte, mebibyte}));
  }));
}

// A backend that counts gradient reductions by whether their tensor is in memory shared with the other ranks.
class SharedMemoryWatch : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  int shared = 0, not_shared = 0;

 protected:
  WorkPtr around(Call call) override {
    if (call.op == CollectiveOp::allreduce && call.input.front().is_floating_point())
      ++(shm::find_place(call.input.front().data_ptr(), call.input.front().nbytes()).block != 0 ? shared : not_shared);
    return call.run();
  }
};

// The test wraps the backend as the conformance suite does. Gradient buckets must stay in shared memory, because the
// suite must check the code path that is timed.
TEST(DdpBuckets, AreInSharedMemoryEvenIfTheBackendIsWrappedByTheChecks) {
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    c10::intrusive_ptr<SharedMemoryWatch> watch;
    me.group = wrapped_group(me.group, at::kCPU,
                             [&](const auto& inner) { return watch = c10::make_intrusive<SharedMemoryWatch>(inner); });
    const auto ddp = ddp_on(me, always(), {});
    for (int64_t step = 0; step < 3; ++step) one_step(*ddp, always(), me.rank, step);
    EXPECT_EQ(watch->shared, 3);
    EXPECT_EQ(watch->not_shared, 0);
  }));
}

// Before every forward pass, rank 0 broadcasts all buffers that do not belong to BatchNorm, with and without
// SyncBatchNorm, even if set_data() replaced them.
TEST(DdpBuffers, BuffersOutsideBatchNormAreBroadcastFromRankZero) {
  const auto inner = workload_registry().at("probe-batch-norm").make({});
  for (const Given& params : std::vector<Given>{{}, {{"sync_batch_norm", "on"}}})
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      const AlteredWorkload workload(
          *inner, [](Model& model) { model.register_buffer("average", at::zeros({3}, at::kDouble)); });
      const auto ddp = ddp_on(me, workload, params);
      one_step(*ddp, workload, me.rank, 0);
      at::Tensor average = *find(ddp->buffers(), "average");
      average.set_data(at::full({3}, 1.0 + me.rank, at::kDouble));
      one_step(*ddp, workload, me.rank, 1);
      EXPECT_TRUE(average.eq(1).all().item<bool>()) << "rank " << me.rank << " has " << average;
    }));
}

// Repeating one step from the same snapshot gives the same gradients, so a resumed run equals an uninterrupted one.
// With a static graph, the first pass reduces gradients after the backward pass, and the buckets are rebuilt before the
// second.
TEST(DdpBuckets, GiveTheSameGradientBitsInTheFirstStepAndInLaterSteps) {
  const auto mlp = workload_registry().at("mnist-mlp").make({});
  for (const Given& params :
       std::vector<Given>{{}, {{"join", "on"}}, {{"static_graph", "on"}}, {{"gradient_as_bucket_view", "off"}}})
    expect_no_errors(on_ranks(3, [&](Rank& me) {
      const auto ddp = ddp_on(me, *mlp, params, at::kFloat);
      const Snapshot start = snapshot_of(*ddp);
      std::vector<at::Tensor> first;
      for (int64_t step = 0; step < 4; ++step) {
        ddp->load(start);
        one_step(*ddp, *mlp, me.rank, 0);
        const NamedTensors gradients = ddp->gradients();
        for (size_t i = 0; i < gradients.size(); ++i) {
          if (step == 0) first.push_back(gradients[i].second.clone());
          EXPECT_TRUE(same_bits(gradients[i].second, first[i])) << "step " << step << ", " << gradients[i].first;
        }
      }
    }));
}

TEST(DdpRecovery, ResumingOnANewGroupAfterAFailedCollectiveGivesTheSameParameters) {
  const auto mlp = workload_registry().at("probe-mlp").make({});
  std::vector<double> ends[2][3];
  for (const bool breaks : {false, true})
    expect_no_errors(on_ranks(3, [&](Rank& me) {
      auto ddp = ddp_on(me, *mlp, {});
      one_step(*ddp, *mlp, me.rank, 0);
      const Snapshot kept = snapshot_of(*ddp);
      ddp.reset();
      if (breaks) {
        std::vector<at::Tensor> mismatched = {at::ones({me.rank == 1 ? 3 : 2})};
        EXPECT_THROW(me.group->allreduce(mismatched)->wait(), std::exception);
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
  for (const Given& params :
       std::vector<Given>{{}, {{"find_unused", "on"}}, {{"static_graph", "on"}}, {{"hook", "fp16"}}})
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      const auto ddp = ddp_on(me, always(), params);
      const Batch one[] = {batch_of(always(), me.rank, 0)};
      const Batch three[] = {batch_of(always(), me.rank, 0), batch_of(always(), me.rank, 1),
                             batch_of(always(), me.rank, 2)};
      for (int64_t step = 0; step < 4; ++step) {
        const auto few = reductions(me, *ddp, one, 2 * step), many = reductions(me, *ddp, three, 2 * step + 1);
        EXPECT_EQ(few.size(), 1U);
        if (params.contains("static_graph") && step == 0)
          continue;  // with a static graph, ddp reduces in the first two backward passes even while it accumulates
        EXPECT_EQ(many, few) << "step " << step;
      }
    }));
}

TEST(DdpHooks, CompressingToFloat16DivideBeforeSummingToAvoidOverflow) {
  constexpr double huge = 60000;  // gradient of each rank; the sum over two ranks exceeds 65504, the largest float16
  const SecondLayerIf large([](const Context&) { return false; }, huge * 4 / 3);
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, large, {{"hook", "fp16"}, {"find_unused", "on"}}, at::kFloat);
    Phases phases;
    const Batch micro[] = {large.batch(at::full({4}, 3, at::kLong))};
    ddp->step(0, micro, phases);
    const at::Tensor gradient = ddp->gradients()[0].second;
    EXPECT_GT(gradient.max().item<double>(), 32768) << "too small to detect an overflow";
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  }));
}

TEST(DdpAutocast, DdpPassesEveryCheckInBfloat16) {
  for (const Given& params : std::vector<Given>{{}, {{"hook", "bf16"}}, {{"find_unused", "on"}}}) {
    const auto rows = check_in_threads({.strategy = strategy_registry().at("ddp"),
                                        .workload = workload_registry().at("probe-mlp"),
                                        .dtype = at::kBFloat16,
                                        .params = params});
    for (const auto& row : rows) EXPECT_NE(row.status, CheckStatus::failed) << row.name << ": " << row.detail;
    EXPECT_GE(rows.size(), 20U);
  }
}

// A two-layer workload with a warm-up of the learning rate. The learning rate rises in each step of these tests.
class Scheduled : public SecondLayerIf {
 public:
  Scheduled() : SecondLayerIf([](const Context&) { return true; }) {}
  OptimizerSpec optimizer() const override { return {.learning_rate = 0.125, .warmup_steps = 8}; }
};

// Rank 0 takes five steps, rank 1 only two. Rank 1 then takes empty steps or calls finish() at once. Returns the
// parameters at the end.
std::vector<double> joined(const Rank& me, const Given& more, bool leaves_at_once) {
  Given params = {{"join", "on"}};
  params.insert(more.begin(), more.end());
  const Scheduled workload;
  const auto ddp = ddp_on(me, workload, params);
  Phases phases;
  for (int64_t step = 0; step < 5; ++step) {
    const bool has_rows = me.rank == 0 || step < 2;
    if (!has_rows && leaves_at_once) break;
    const Batch micro[] = {batch_of(always(), me.rank, step)};
    ddp->step(step, has_rows ? std::span<const Batch>(micro) : std::span<const Batch>(), phases);
  }
  ddp->finish();
  return flat(ddp->parameters());
}

TEST(DdpJoin, GivesAllRanksTheSameParametersWhenOneRunsOutOfSamples) {
  std::vector<double> ends[2][2];
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    for (const bool at_once : {false, true}) ends[me.rank][at_once] = joined(me, {}, at_once);
  }));
  EXPECT_EQ(ends[0][0], ends[1][0]);
  EXPECT_EQ(ends[0][0], ends[0][1]);
  EXPECT_EQ(ends[0][0], ends[1][1]);
}

TEST(DdpJoin, DividesTheGradientSumByTheInitialWorldOrTheActiveRanks) {
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    at::Tensor initial, active;
    for (const char* divisor : {"initial", "active"}) {
      const auto ddp = ddp_on(me, always(), {{"join", "on"}, {"join_divisor", divisor}});
      Phases phases;
      const Batch micro[] = {batch_of(always(), 0, 0)};
      ddp->step(0, me.rank == 0 ? std::span<const Batch>(micro) : std::span<const Batch>(), phases);
      (divisor == std::string("initial") ? initial : active) = ddp->gradients()[0].second.clone();
    }
    EXPECT_TRUE(active.any().item<bool>());
    EXPECT_TRUE(at::equal(active, initial * 2));
  }));
}

TEST(DdpJoin, AStepWithoutSamplesFailsWithAnErrorThatSuggestsJoin) {
  for (const auto& error : on_ranks(1, [](Rank& me) {
         Phases phases;
         ddp_on(me, always(), {})->step(7, {}, phases);
       }))
    EXPECT_TRUE(mentions(error, {"step 7", "ddp.join=on"}));
}

}  // namespace
}  // namespace dpbench
