// ddp.graph=on records the whole step of ddp and replays it. Ranks are threads, and a recorder for the CPU stands in
// for CUDA graphs.
#include <algorithm>
#include <atomic>
#include <set>

#include "harness/conform/evidence/forwarding_backend.h"
#include "tests/ranks/ddp_ranks.h"
#include "tests/ranks/threads.h"
#include "tests/support/contains.h"
#include "tests/support/cpu_recorder.h"

namespace dpbench {
namespace {

using namespace ddp_ranks;

Given recorded_with(Given params) {
  params["graph"] = "on";
  return params;
}

struct RecordedCase {
  std::string workload;
  Given params = {};
  std::vector<int64_t> rows = {8};  // samples per rank in step 0, 1, ...; after the last number, the list repeats
  int64_t accumulate = 1;
  std::optional<double> clip_norm = {};
  int64_t eager = 2;  // number of steps that run normally for each batch size before a step is recorded
};

std::vector<Batch> batches_of_step(const RecordedCase& recorded_case, const Workload& workload, int rank,
                                   int64_t step) {
  const int64_t rows = recorded_case.rows[static_cast<size_t>(step) % recorded_case.rows.size()];
  std::vector<Batch> micro;
  for (int64_t k = 0; k < recorded_case.accumulate; ++k)
    micro.push_back(batch_of(workload, rank, recorded_case.accumulate * step + k, rows));
  return micro;
}

void expect_equal(const NamedTensors& plain, const NamedTensors& recorded, int64_t step) {
  ASSERT_EQ(plain.size(), recorded.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    ASSERT_EQ(plain[i].second.defined(), recorded[i].second.defined()) << plain[i].first << ", step " << step;
    if (!plain[i].second.defined()) continue;
    EXPECT_TRUE(at::equal(plain[i].second, recorded[i].second)) << plain[i].first << ", step " << step;
  }
}

// Takes the same steps with and without recording. Outputs, losses, gradients and all state must agree bit for bit.
void expect_plain_steps(const RecordedCase& recorded_case) {
  constexpr int64_t steps = 8;
  const CpuRecorders recorders;
  const auto workload = workload_registry().at(recorded_case.workload).make({});
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto plain = made("ddp", me, *workload, recorded_case.params, at::kFloat, recorded_case.clip_norm);
    const auto recorded =
        made("ddp", me, *workload, recorded_with(recorded_case.params), at::kFloat, recorded_case.clip_norm);
    RecorderCounts& counts = counts_of_this_rank();
    counts.forget_gradients = [&] {
      for (auto& [name, tensor] : recorded->parameters()) tensor.mutable_grad().reset();
    };
    for (int64_t step = 0; step < steps; ++step) {
      const auto micro = batches_of_step(recorded_case, *workload, me.rank, step);
      Phases phases;
      const StepResult a = plain->step(step, micro, phases), b = recorded->step(step, micro, phases);
      EXPECT_TRUE(at::equal(a.output, b.output)) << "step " << step;
      EXPECT_TRUE(at::equal(a.loss, b.loss)) << "step " << step;
      EXPECT_FALSE(b.output.requires_grad() || b.loss.requires_grad());
      expect_equal(plain->gradients(), recorded->gradients(), step);
      expect_equal(plain->parameters(), recorded->parameters(), step);
      expect_equal(plain->buffers(), recorded->buffers(), step);
      expect_equal(plain->state(), recorded->state(), step);
    }
    const auto shapes =
        static_cast<int64_t>(std::set<int64_t>(recorded_case.rows.begin(), recorded_case.rows.end()).size());
    EXPECT_EQ(counts.recordings, shapes);
    EXPECT_EQ(counts.replays, steps - shapes * recorded_case.eager);
  }));
}

TEST(DdpRecorded, ReplayEqualsThePlainStepAcrossWorkloadsAndSettings) {
  for (const RecordedCase& recorded_case : std::vector<RecordedCase>{
           {.workload = "random-linear"},
           {.workload = "convnet"},
           {.workload = "convnet", .params = {{"sync_batch_norm", "on"}}},
           {.workload = "convnet", .params = {{"broadcast_buffers", "off"}}},
           {.workload = "convnet", .params = {{"static_graph", "on"}}, .eager = 3},
           {.workload = "mnist-mlp", .params = {{"gradient_as_bucket_view", "off"}}},
           {.workload = "mnist-mlp", .params = {{"bucket_mb", "0.05"}, {"first_bucket_mb", "0.01"}}},
           {.workload = "mnist-mlp", .params = {{"hook", "fp16"}}},
           {.workload = "probe-mlp-sgd"},  // the learning rate of this workload, probe-mlp-sgd, is scheduled
           {.workload = "mnist-mlp", .params = {{"ignore", "n.3.weight"}}}}) {
    std::string params;
    for (const auto& [name, value] : recorded_case.params) params += " " + name + "=" + value;
    SCOPED_TRACE(recorded_case.workload + params);
    expect_plain_steps(recorded_case);
  }
}

TEST(DdpRecorded, AccumulatesAndClipsLikeThePlainStep) {
  expect_plain_steps({.workload = "convnet", .accumulate = 2, .clip_norm = 0.01});
  expect_plain_steps(
      {.workload = "mnist-mlp", .params = {{"static_graph", "on"}}, .accumulate = 3, .clip_norm = 0.01, .eager = 3});
}

TEST(DdpRecorded, RecordsEachBatchSizeOnceAndReturnsTheGradientsOfTheLastStep) {
  for (const char* views : {"on", "off"})
    expect_plain_steps({.workload = "convnet", .params = {{"gradient_as_bucket_view", views}}, .rows = {8, 4}});
}

// The Reducer rebuilds its buckets before the second step, or before the third with a static graph. An earlier
// recording would capture the old buckets.
TEST(DdpRecorded, StepsAreRecordedOnlyAfterTheBucketsAreRebuilt) {
  const CpuRecorders recorders;
  const auto mlp = workload_registry().at("probe-mlp").make({});
  for (const int64_t eager : {2, 3}) {
    const Given params = {
        {"bucket_mb", "0.0005"}, {"first_bucket_mb", "0.0002"}, {"static_graph", eager == 3 ? "on" : "off"}};
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      const auto ddp = ddp_on(me, *mlp, recorded_with(params));
      const Batch micro[] = {batch_of(*mlp, me.rank, 0)};
      const std::vector<int64_t> rebuilt = {248, 576, 432};  // bytes of each bucket after the rebuild
      for (int64_t step = 0; step < 6; ++step) {
        const auto bytes = reductions(me, *ddp, micro, step);
        EXPECT_EQ(bytes == rebuilt, step + 1 >= eager) << "step " << step;
        EXPECT_EQ(counts_of_this_rank().replays, std::max<int64_t>(0, step + 1 - eager));
      }
    }));
  }
}

TEST(DdpRecorded, TimeOfReplayedStepsCountsOnlyInThePhasesDataAndGraph) {
  const CpuRecorders recorders;
  expect_no_errors(on_ranks(2, [](Rank& me) {
    const auto ddp = ddp_on(me, always(), recorded_with({}));
    Phases phases(true);
    for (int64_t step = 0; step < 6; ++step) {
      if (step == 2) phases.clear();
      const Batch micro[] = {batch_of(always(), me.rank, step)};
      ddp->step(step, micro, phases);
      phases.leave();
    }
    for (size_t i = 0; i < phase_names.size(); ++i) {
      const auto phase = static_cast<Phase>(i);
      EXPECT_EQ(phases.total_ns()[i] > 0, phase == Phase::data || phase == Phase::graph) << phase_names[i];
    }
    EXPECT_TRUE(ddp->figures().empty());
  }));
}

TEST(DdpRecorded, RejectsASampleCountOneMoreOrLessThanInAnEarlierStep) {
  const CpuRecorders recorders;
  const auto error_of = [](int world, int64_t then) {
    return on_ranks(world, [&](Rank& me) {
      const auto ddp = ddp_on(me, always(), recorded_with({}));
      for (int64_t step = 0; step < 2; ++step) {
        Phases phases;
        const Batch micro[] = {batch_of(always(), me.rank, step, step == 0 ? 4 : then)};
        ddp->step(step, micro, phases);
      }
    });
  };
  for (const int64_t then : {3, 5})
    for (const auto& error : error_of(2, then)) EXPECT_TRUE(mentions(error, {std::to_string(then), "step 1", "4"}));
  expect_no_errors(error_of(2, 2));
  expect_no_errors(error_of(1, 3));
}

// Samples may be padded to the longest of their batch, so shapes differ between ranks as between steps.
TEST(DdpRecorded, RejectsOtherShapesOfAsManySamplesAsInAnEarlierStep) {
  const CpuRecorders recorders;
  const auto errors = on_ranks(2, [](Rank& me) {
    const auto ddp = ddp_on(me, always(), recorded_with({}));
    for (int64_t step = 0; step < 2; ++step) {
      Batch micro[] = {batch_of(always(), me.rank, step, 4)};
      if (step == 1) micro[0].input = at::cat({micro[0].input, micro[0].input}, 1);
      Phases phases;
      ddp->step(step, micro, phases);
    }
  });
  for (const auto& error : errors)
    EXPECT_TRUE(mentions(error, {"4 samples in step 1", "other shapes", "ddp.graph=off"}));
}

TEST(DdpRecorded, ParametersThatCannotBeCombinedWithRecordedStepsAreNamed) {
  const StrategyInfo& info = strategy_registry().at("ddp");
  const auto refusal = [&](const Given& params) {
    try {
      promised(info, Params(info.params, recorded_with(params), "ddp"));
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  for (const std::string name : {"find_unused", "join", "global_mean", "step_in_backward"}) {
    EXPECT_TRUE(mentions(refusal({{name, "on"}}), {"ddp.graph=on", "ddp." + name + "=on"}));
  }
  for (const Given& params :
       std::vector<Given>{{}, {{"static_graph", "on"}}, {{"hook", "bf16"}}, {{"sync_batch_norm", "on"}}})
    EXPECT_EQ(refusal(params), "nothing was refused");
}

TEST(DdpRecorded, IsRejectedWithoutAGpuOrABackendThatSupportsRecording) {
  const auto error_of = [] { return on_ranks(1, [](Rank& me) { ddp_on(me, always(), recorded_with({})); })[0]; };
  EXPECT_TRUE(mentions(error_of(), {"ddp.graph=on", "GPU"}));
  const CpuRecorders recorders([](c10::Device) -> std::unique_ptr<StepRecorder> {
    return std::make_unique<CpuRecorder>(counts_of_this_rank(), /*takes_backends=*/false);
  });
  EXPECT_TRUE(mentions(error_of(), {"ddp.graph=on", "--backend threads"}));
}

TEST(DdpRecorded, NeedsAGpuAndStepsThatUseTheSameParametersInTheSameOrder) {
  const StrategyInfo& info = strategy_registry().at("ddp");
  const StrategyInfo plain = promised(info, Params(info.params, {}, "ddp"));
  const StrategyInfo recorded = promised(info, Params(info.params, recorded_with({}), "ddp"));
  EXPECT_TRUE(plain.cpu && !plain.recorded && !plain.same_graph);
  EXPECT_TRUE(!recorded.cpu && recorded.cuda && recorded.recorded && recorded.same_graph);
}

std::vector<CheckRow> checked(const std::string& workload, const Given& params, int world = 3,
                              const std::string& filter = "", const Wrap& wrap = {}) {
  const CpuRecorders recorders;
  return check_in_threads({.strategy = strategy_registry().at("ddp"),
                           .workload = workload_registry().at(workload),
                           .world = world,
                           .params = recorded_with(params),
                           .filter = filter,
                           .wrap = wrap});
}

TEST(DdpRecorded, PassesEveryCheckWithACpuRecorder) {
  const std::vector<std::pair<std::string, Given>> cases = {{"probe-mlp", {}},
                                                            {"probe-mlp", {{"static_graph", "on"}}},
                                                            {"probe-mlp", {{"hook", "fp16"}}},
                                                            {"probe-batch-norm", {}},
                                                            {"probe-batch-norm", {{"sync_batch_norm", "on"}}},
                                                            {"probe-strided", {{"gradient_as_bucket_view", "off"}}},
                                                            {"probe-mixed", {}},
                                                            {"probe-exact", {}}};
  for (const auto& [workload, params] : cases)
    for (const int world : {1, 3}) {
      size_t passed = 0;
      for (const auto& row : checked(workload, params, world)) {
        EXPECT_NE(row.status, CheckStatus::failed)
            << workload << ' ' << world << ", " << row.name << ": " << row.detail;
        passed += row.status == CheckStatus::passed;
      }
      EXPECT_GE(passed, 12U) << workload << ' ' << world;
    }
}

TEST(DdpRecorded, RejectsAModelWithAnUnusedParameterNamingIt) {
  const auto rows = checked("probe-unused", {});
  for (const auto& row : rows) EXPECT_NE(row.status, CheckStatus::failed) << row.name << ": " << row.detail;
  const auto names_it = [](const CheckRow& row) {
    return row.name == "unused-parameters" && row.status == CheckStatus::passed;
  };
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), names_it));
  for (const auto& row : checked("probe-unused", {{"static_graph", "on"}}))
    EXPECT_NE(row.status, CheckStatus::failed) << row.name << ": " << row.detail;
}

// A backend that counts the collectives of replayed steps: as `expected` the allreduces and broadcasts, which a
// recorded step may call, and as `unexpected` all others, which it may not call.
class ReplayWatch : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  static inline std::atomic<int> expected = 0, unexpected = 0;

 protected:
  WorkPtr around(Call call) override {
    if (counts_of_this_rank().replaying)
      ++(call.op == CollectiveOp::allreduce || call.op == CollectiveOp::broadcast ? expected : unexpected);
    return call.run();
  }
};

TEST(DdpRecorded, ReplayedStepsCallNoCollectiveButAllreduceAndBroadcast) {
  const auto rows = checked("probe-batch-norm", {}, 3, "gradient-meaning", [](c10::intrusive_ptr<c10d::Backend> inner) {
    return c10::make_intrusive<ReplayWatch>(inner);
  });
  EXPECT_FALSE(rows.empty());
  EXPECT_GT(ReplayWatch::expected, 0);
  EXPECT_EQ(ReplayWatch::unexpected, 0);
}

TEST(DdpRecorded, SkipsTheCheckInWhichCollectivesStartLate) {
  const auto rows = checked("probe-mlp", {}, 3, "late-collectives");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].status, CheckStatus::skipped);
  EXPECT_TRUE(mentions(rows[0].detail, {"recorded"}));
}

}  // namespace
}  // namespace dpbench
