// What ddp refuses and says, how it lays out its buckets, and ranks that run out of rows; its gradients are the
// suite's.
#include <torch/nn/modules/batchnorm.h>

#include "harness/conform/evidence/evidence.h"
#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/scenario/altered_workload.h"
#include "strategies/comm/shm/blocks.h"
#include "tests/conformance/threads.h"
#include "tests/unit/strategies/ddp_ranks.h"

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
      {{{"gradient_as_bucket_view", "sometimes"}}, {"ddp.gradient_as_bucket_view=sometimes"}},
      {{{"broadcast_buffers", "yes"}}, {"ddp.broadcast_buffers=yes"}},
      {{{"static_graph", "perhaps"}}, {"ddp.static_graph=perhaps"}},
      {{{"bucket_mb", "0"}}, {"ddp.bucket_mb"}}};
  for (const auto& [params, words] : bad)
    for (const auto& word : words)
      EXPECT_NE(refusal(params).find(word), std::string::npos) << word << ": " << refusal(params);
}

TEST(DdpParameters, RefusesTf32OnACpu) {
  for (const auto& error : on_ranks(1, [](Rank& me) { ddp_on(me, always(), {{"tf32", "on"}}); }))
    EXPECT_EQ(error, "ddp.tf32=on needs a GPU: a CPU has no TF32");
}

TEST(DdpParameters, RefusesSyncBatchNormOfAModelWithoutOne) {
  for (const int world : {1, 2})
    for (const auto& error : on_ranks(world, [](Rank& me) { ddp_on(me, always(), {{"sync_batch_norm", "on"}}); }))
      EXPECT_EQ(
          error,
          "ddp.sync_batch_norm=on: the model has no BatchNorm (of workloads/layers/batch_norm.h) whose statistics "
          "ranks could share; leave it off, or name a --workload that has one");
}

// A stranger's model, with torch's own layer.
class ItsOwnNorm : public Sometimes {
 public:
  ItsOwnNorm() : Sometimes({}) {}
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Normed>(); }

 private:
  struct Normed : Model {
    Normed() { register_module("norm", torch::nn::BatchNorm1d(4)); }
    at::Tensor forward(const at::Tensor& input, const Context&) override { return input; }
  };
};

TEST(DdpParameters, RefusesSyncBatchNormOfTorchsOwnLayers) {
  const ItsOwnNorm workload;
  for (const auto& error : on_ranks(2, [&](Rank& me) { ddp_on(me, workload, {{"sync_batch_norm", "on"}}); }))
    EXPECT_NE(error.find("layer norm is torch's own BatchNorm"), std::string::npos) << error;
}

TEST(DdpParameters, RefuseAClipNormThatNoRankCouldKnow) {
  const auto said = [](const Given& params) {
    return on_ranks(1, [&](Rank& me) { made("ddp", me, always(), params, at::kDouble, 1.0); })[0];
  };
  EXPECT_NE(said({{"step_in_backward", "on"}}).find("ddp.step_in_backward=on and --clip-norm"), std::string::npos);
  EXPECT_NE(said({{"ignore", "second"}}).find("ddp.ignore=second and --clip-norm"), std::string::npos);
}

// A model of these tensors, used one after the other, of which the frozen one is not trained.
class OfTensors : public Workload {
 public:
  explicit OfTensors(std::vector<at::Tensor> parameters, std::optional<size_t> frozen = {})
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

// What rank 1 says where rank 0 has `zero` and it has `one`, of which `frozen` is not trained.
std::string mismatch(const std::vector<at::Tensor>& zero, const std::vector<at::Tensor>& one,
                     std::optional<size_t> frozen = {}) {
  return on_ranks(2, [&](Rank& me) {
    const OfTensors workload = me.rank == 0 ? OfTensors(zero) : OfTensors(one, frozen);
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
  EXPECT_EQ(mismatch({plain, plain}, {plain, plain}, 1),
            "this rank's model is not rank 0's: it has p1 of shape [2, 3, 4, 5] and type Float (not trained) where "
            "rank 0 has p1 of shape "
            "[2, 3, 4, 5] and type Float");
}

TEST(DdpModels, WithoutAGradientAreRefused) {
  for (const auto& error :
       on_ranks(1, [](Rank& me) { ddp_on(me, OfTensors({at::zeros({2}, at::kLong)}), {}, at::kFloat); }))
    EXPECT_EQ(error, "ddp: no parameter of this model requires a gradient");
}

TEST(DdpBuckets, AreRebuiltInTheOrderOfReadinessWithinTheirCaps) {
  const auto mlp = workload_registry().at("probe-mlp").make({});
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, *mlp, {{"bucket_mb", "0.0005"}, {"first_bucket_mb", "0.0002"}});
    const Batch micro[] = {rows_of(*mlp, me.rank, 0)};
    // Of float64: w0 432 and b0 72 bytes, w1 504 and b1 56, w2 168 and b2 24; the last layer's are ready first.
    EXPECT_EQ(reductions(me, *ddp, micro, 0), (std::vector<int64_t>{1256}));
    // A bucket is full when it has reached its cap, of 209 bytes and then of 524: b2 w2 b1, w1 b0, w0.
    for (const int64_t step : {1, 2})
      EXPECT_EQ(reductions(me, *ddp, micro, step), (std::vector<int64_t>{248, 576, 432}));
    const auto figures = ddp->figures();
    EXPECT_EQ(figures.at("reducer_gradient_ready_order"),
              (std::vector<double>{5, 4, 3, 2, 1, 0}));  // numbered as they were registered
    EXPECT_EQ(figures.at("reducer_bucket_bytes"), (std::vector<double>{248, 576, 432}));
  }));
}

TEST(DdpBuckets, AreOfOneAndThen25MebibytesUnlessAsked) {
  constexpr int64_t mebibyte = 1024 * 1024, floats = mebibyte / 4;
  std::vector<at::Tensor> parameters;
  for (const int64_t size : {floats, 9 * floats, 16 * floats, 3 * floats / 4, floats / 2})
    parameters.push_back(at::ones({size}));
  const OfTensors workload(parameters);
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, workload, {}, at::kFloat);
    const Batch micro[] = {rows_of(workload, me.rank, 0)};
    EXPECT_EQ(reductions(me, *ddp, micro, 0), (std::vector<int64_t>{109 * mebibyte / 4}));
    // From the last one on: half a mebibyte is below the first cap, with 3/4 more it is full; 16 and 9 reach the second
    // cap exactly.
    EXPECT_EQ(reductions(me, *ddp, micro, 1), (std::vector<int64_t>{5 * mebibyte / 4, 25 * mebibyte, mebibyte}));
  }));
}

// Counts reductions whose tensor the other ranks can read where it lies.
class PlaceWatch : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  int placed = 0, elsewhere = 0;

 protected:
  WorkPtr around(Call call) override {
    if (call.op == CollectiveOp::allreduce && call.input.front().is_floating_point())
      ++(shm::find_place(call.input.front().data_ptr(), call.input.front().nbytes()).block != 0 ? placed : elsewhere);
    return call.run();
  }
};

// Two wrappers deep, as under the conformance suite: what is checked is then the way that is timed.
TEST(DdpBuckets, LieInSharedMemoryUnderWhatWatchesToo) {
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    c10::intrusive_ptr<PlaceWatch> watch;
    me.group = wrapped_group(me.group, at::kCPU,
                             [&](const auto& inner) { return watch = c10::make_intrusive<PlaceWatch>(inner); });
    const auto ddp = ddp_on(me, always(), {});
    for (int64_t step = 0; step < 3; ++step) one_step(*ddp, always(), me.rank, step);
    EXPECT_EQ(watch->placed, 3);
    EXPECT_EQ(watch->elsewhere, 0);
  }));
}

// A buffer besides BatchNorm's is rank 0's in every forward pass, SyncBatchNorm or not, also one that was given other
// memory.
TEST(DdpBuffers, AreRankZerosBesideSyncBatchNorm) {
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

// The first step of a resumed run is a later one of a run that was not stopped. A static graph's first pass is reduced
// when it is over, its second begins with other buckets.
TEST(DdpBuckets, GiveTheSameBitsInTheFirstStepAsInLaterOnes) {
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
  for (const Given& params :
       std::vector<Given>{{}, {{"find_unused", "on"}}, {{"static_graph", "on"}}, {{"hook", "fp16"}}})
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      const auto ddp = ddp_on(me, always(), params);
      const Batch one[] = {rows_of(always(), me.rank, 0)};
      const Batch three[] = {rows_of(always(), me.rank, 0), rows_of(always(), me.rank, 1),
                             rows_of(always(), me.rank, 2)};
      for (int64_t step = 0; step < 4; ++step) {
        const auto few = reductions(me, *ddp, one, 2 * step), many = reductions(me, *ddp, three, 2 * step + 1);
        EXPECT_EQ(few.size(), 1U);
        if (params.contains("static_graph") && step == 0)
          continue;  // its first two passes are reduced wherever they stand
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
    for (const auto& row : rows) EXPECT_NE(row.status, CheckStatus::failed) << row.name << ": " << row.detail;
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

TEST(DdpJoin, IsNeededWhereARankHasNoRowsAndTheErrorSaysSo) {
  for (const auto& error : on_ranks(1, [](Rank& me) {
         Phases phases;
         ddp_on(me, always(), {})->step(7, {}, phases);
       }))
    EXPECT_EQ(error, "ddp: this rank has no rows in step 7; --param ddp.join=on lets it go on without");
}

}  // namespace
}  // namespace dpbench
