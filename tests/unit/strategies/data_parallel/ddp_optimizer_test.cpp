// Optimizer steps of ddp, zero1 and local-sgd: during the backward pass, with parameters that ddp ignores, and with
// optimizer state sharded over the ranks.
#include <mutex>

#include "strategies/ddp/reduction.h"
#include "tests/ranks/ddp_ranks.h"
#include "tests/ranks/threads.h"
#include "tests/support/contains.h"

namespace dpbench {
namespace {

using namespace ddp_ranks;

TEST(DdpStepInBackward, UpdatesTheParametersOfEveryBucketOnceBeforeTheBackwardPassReturns) {
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
      const Batch batch = replica.to_device(batch_of(*mlp, me.rank, step));
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

TEST(DdpStepInBackward, GivesTheBitsOfAnOptimizerStepAfterTheBackwardPass) {
  const auto mlp = workload_registry().at("probe-mlp").make({});
  for (const Given& more : std::vector<Given>{
           {}, {{"hook", "fp16"}}, {{"static_graph", "on"}}, {{"gradient_as_bucket_view", "off"}}, {{"ignore", "w1"}}})
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      Given within = {{"step_in_backward", "on"}, {"bucket_mb", "0.0005"}}, after = {{"bucket_mb", "0.0005"}};
      within.insert(more.begin(), more.end());
      after.insert(more.begin(), more.end());
      const auto one = ddp_on(me, *mlp, within), other = ddp_on(me, *mlp, after);
      for (int64_t step = 0; step < 4; ++step) {
        Phases phases;
        const Batch micro[] = {batch_of(*mlp, me.rank, 2 * step), batch_of(*mlp, me.rank, 2 * step + 1)};
        one->step(step, micro, phases);
        other->step(step, micro, phases);
        const auto found = one->parameters(), expected = other->parameters();
        for (size_t p = 0; p < expected.size(); ++p)
          EXPECT_TRUE(at::equal(found[p].second, expected[p].second)) << expected[p].first << ", step " << step;
      }
    }));
}

TEST(DdpIgnore, DdpWithIgnoredParametersPassesEveryCheck) {
  for (const Given& params : std::vector<Given>{
           {{"ignore", "b0+w2"}}, {{"ignore", "w1"}, {"step_in_backward", "on"}}, {{"ignore", "w1"}, {"hook", "fp16"}}})
    for (const char* workload : {"probe-mlp", "probe-mlp-sgd"}) {
      const auto rows = check_in_threads(
          {.strategy = strategy_registry().at("ddp"), .workload = workload_registry().at(workload), .params = params});
      size_t passed = 0;
      for (const auto& row : rows) {
        EXPECT_NE(row.status, CheckStatus::failed) << row.name << ": " << row.detail;
        passed += row.status == CheckStatus::passed;
      }
      EXPECT_GE(passed, 18U);
    }
}

TEST(DdpIgnore, KeepsIgnoredParametersLocalAndReducesTheRest) {
  const auto mlp = workload_registry().at("probe-mlp").make({});
  std::vector<double> ends[2], shared[2];
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, *mlp, {{"ignore", "w1+b1"}});
    const Batch micro[] = {batch_of(*mlp, me.rank, 0)};
    EXPECT_EQ(reductions(me, *ddp, micro, 0), (std::vector<int64_t>{432 + 72 + 168 + 24}));
    NamedTensors own, others;
    for (const auto& named : ddp->parameters())
      (named.first == "w1" || named.first == "b1" ? own : others).push_back(named);
    ends[me.rank] = flat(own);
    shared[me.rank] = flat(others);
  }));
  EXPECT_NE(ends[0], ends[1]);
  EXPECT_EQ(shared[0], shared[1]);
}

TEST(DdpIgnore, RejectsUnknownNamesAndIgnoringAllParameters) {
  const auto error_of = [](const std::string& names) {
    return on_ranks(1, [&](Rank& me) { ddp_on(me, always(), {{"ignore", names}}); })[0];
  };
  EXPECT_TRUE(mentions(error_of("third"), {"ddp.ignore=third", "first, second"}));
  EXPECT_TRUE(mentions(error_of("first+second"), {"ddp.ignore=first+second"}));
}

void expect_close(const NamedTensors& found, const NamedTensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    for (const auto& [other, mine] : found)
      if (other == name) {
        EXPECT_TRUE(at::allclose(mine, tensor, 1e-13, 1e-15)) << name;
      }
}

class Zero1 : public testing::TestWithParam<int> {};

TEST_P(Zero1, EqualsDdpInEveryStepAndLoadsTheStateOfDdp) {
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

TEST_P(Zero1, PassesEveryCheck) {
  for (const char* workload : {"probe-mlp", "probe-mixed"}) {
    const auto rows = check_in_threads({.strategy = strategy_registry().at("zero1"),
                                        .workload = workload_registry().at(workload),
                                        .world = GetParam()});
    for (const auto& row : rows) EXPECT_NE(row.status, CheckStatus::failed) << row.name << ": " << row.detail;
    EXPECT_GE(rows.size(), 20U);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Zero1, testing::Values(1, 2, 3, 4));

TEST(Zero1AndLocalSgd, RejectInvalidIntervalsEmptyStepsAndUnusedParameters) {
  const auto error_of = [](const std::string& name, const Given& params, const Workload& workload, bool rows) {
    return on_ranks(1, [&](Rank& me) {
      const auto strategy = made(name, me, workload, params);
      Phases phases;
      const Batch micro[] = {batch_of(workload, 0, 0)};
      strategy->step(3, rows ? std::span<const Batch>(micro) : std::span<const Batch>(), phases);
    })[0];
  };
  const SecondLayerIf never([](const Context&) { return false; });
  EXPECT_TRUE(mentions(error_of("local-sgd", {{"average_every", "0"}}, always(), true), {"local-sgd.average_every=0"}));
  EXPECT_TRUE(
      mentions(error_of("local-sgd", {{"average_every", "often"}}, always(), true), {"local-sgd.average_every=often"}));
  EXPECT_TRUE(mentions(error_of("local-sgd", {}, always(), false), {"step 3"}));
  EXPECT_TRUE(mentions(error_of("zero1", {}, always(), false), {"step 3"}));
  EXPECT_TRUE(mentions(error_of("zero1", {}, never, true), {"unused", "second"}));
}

}  // namespace
}  // namespace dpbench
