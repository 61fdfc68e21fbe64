// Compares the simulator of schedules with the closed formulas of the papers, exactly, and with times computed by hand.
#include <gtest/gtest.h>

#include "strategies/schedule/lower.h"
#include "tests/unit/schedule/cases.h"

namespace dpbench::pipeline {
namespace {

// Times of the forward pass (F), input gradient (B) and weight gradient (W). Whole numbers are exact in a double.
const std::vector<Costs>& cost_triples() {
  static const std::vector<Costs> all = {{.forward = 1, .input_gradient = 1, .weight_gradient = 1},
                                         {.forward = 2, .input_gradient = 2, .weight_gradient = 1},
                                         {.forward = 4, .input_gradient = 5, .weight_gradient = 3},
                                         {.forward = 3, .input_gradient = 5, .weight_gradient = 4},
                                         {.forward = 1, .input_gradient = 2, .weight_gradient = 1}};
  return all;
}

double worst_bubble(const Simulation& simulation, BubbleOf of) {
  double worst = 0;
  for (size_t rank = 0; rank < simulation.ranks.size(); ++rank)
    worst = std::max(worst, of == BubbleOf::span ? simulation.ranks[rank].span_bubble()
                                                 : simulation.step_bubble(static_cast<int>(rank)));
  return worst;
}

class BubbleFormula : public testing::TestWithParam<Family> {};

TEST_P(BubbleFormula, OfAScheduleFamilyEqualsTheSimulatedBubble) {
  const Family& family = GetParam();
  int compared = 0;
  for (const Costs& costs : cost_triples())
    for_each_size(family, [&](const Request& request) {
      const std::optional<double> formula = family.bubble(request, costs);
      if (!formula) return;
      ++compared;
      ASSERT_EQ(worst_bubble(simulate(make_schedule(family, request), costs), family.bubble_of), *formula)
          << text_of(request) << ", F=" << costs.forward;
    });
  EXPECT_GT(compared, 40);
  RecordProperty("compared", compared);
}

// Transfers that take no time must change neither the end of the step nor the end of the last computation of any rank.
TEST_P(BubbleFormula, HoldsWithTransfersThatTakeNoTime) {
  for_each_size(
      GetParam(),
      [](const Request& request) {
        const Schedule compute = make_schedule(GetParam(), request);
        const Simulation without = simulate(compute), with = simulate(lower(compute));
        ASSERT_EQ(with.makespan, without.makespan) << text_of(request);
        for (int rank = 0; rank < compute.world(); ++rank)
          ASSERT_EQ(with.ranks[rank].last, without.ranks[rank].last) << text_of(request);
      },
      8, 17);
}

// simulate_spans() lists no computations, but finds the same times.
TEST_P(BubbleFormula, HoldsInASimulationThatListsNoComputations) {
  const Costs costs{.forward = 2, .input_gradient = 3, .weight_gradient = 1, .bytes = 1, .link = {0.5, 4}};
  for_each_size(
      GetParam(),
      [&](const Request& request) {
        const Schedule schedule = make_schedule(GetParam(), request);
        const Simulation listed = simulate(schedule, costs), spans = simulate_spans(schedule, costs);
        ASSERT_EQ(spans.makespan, listed.makespan) << text_of(request);
        for (int rank = 0; rank < schedule.world(); ++rank) {
          const RankTimes &one = spans.ranks[rank], &other = listed.ranks[rank];
          ASSERT_TRUE(one.computations.empty() && one.transfers.empty());
          ASSERT_EQ(one.busy, other.busy) << text_of(request);
          ASSERT_EQ(one.first, other.computations.front().start) << text_of(request);
          ASSERT_EQ(one.last, other.computations.back().end) << text_of(request);
        }
      },
      8, 17);
}

INSTANTIATE_TEST_SUITE_P(Schedules, BubbleFormula, testing::ValuesIn(families()), [](const auto& given) {
  std::string name = given.param.name;
  std::erase(name, '-');
  return name;
});

Simulation simulated(const std::string& name, const Request& request, const Costs& costs = {}) {
  return simulate(make_schedule(*find_family(name), request), costs);
}

std::vector<int> live(const Simulation& simulation) {
  std::vector<int> all;
  for (const RankTimes& rank : simulation.ranks) all.push_back(rank.live);
  return all;
}

TEST(Simulate, FindsAsManyLiveActivationsAsThePapersOfTheSchedulesState) {
  constexpr int p = 4, v = 2, m = 16;
  EXPECT_EQ(live(simulated("gpipe", {p, 1, m})), std::vector<int>(p, m));
  EXPECT_EQ(live(simulated("1f1b", {p, 1, m})), (std::vector<int>{p, p - 1, p - 2, p - 3}));
  EXPECT_EQ(live(simulated("interleaved", {p, v, m}))[0], p * v + p - 1);
  EXPECT_EQ(live(simulated("zb-h1", {p, 1, m})), std::vector<int>(p, p));
  EXPECT_EQ(live(simulated("zb-h2", {p, 1, m})), std::vector<int>(p, 2 * p - 1));
  EXPECT_EQ(live(simulated("zbv", {p, v, m})), std::vector<int>(p, 2 * p));
  EXPECT_EQ(live(simulated("dualpipe", {p, 1, m})), std::vector<int>(p, p + 1));
}

// The last rank cannot start before the first micro-batch has passed through all other ranks. The bound for DualPipe,
// which feeds micro-batches in at both ends, lacks this time.
TEST(Simulate, NoScheduleFinishesBeforeTheLowerBoundOnItsTime) {
  for (const Family& family : families())
    for_each_size(family, [&](const Request& request) {
      const Simulation simulation = simulate(make_schedule(family, request));
      const bool both_ways = family.name == "dualpipe";
      const double work = 3.0 * request.microbatches * request.chunks;
      ASSERT_GE(simulation.makespan, work + (both_ways ? 0 : request.ranks - 1)) << family.name;
    });
}

TEST(Simulate, TheScheduleZbvReachesTheLowerBoundOnItsTimeWithEnoughMicroBatches) {
  const Simulation simulation = simulated("zbv", {4, 2, 7});
  EXPECT_EQ(simulation.makespan, 3 * 7 * 2 + 3);
}

// The bubble of ZBV is 0 only if F = B = W. The times in this test are those of one stage; each rank has two stages.
TEST(Simulate, ZbvIdlesForFiveUnitsPerOtherRankIfFIs4AndBIs5AndWIs3) {
  for (const int ranks : {2, 3, 4, 8})
    for (const int microbatches : {2 * ranks, 2 * ranks + 3, 4 * ranks}) {
      const Costs costs{.forward = 4, .input_gradient = 5, .weight_gradient = 3};
      const Simulation simulation = simulated("zbv", {ranks, 2, microbatches}, costs);
      EXPECT_EQ(simulation.step_bubble(0), 5 * (ranks - 1)) << ranks << " ranks, " << microbatches << " micro-batches";
    }
}

TEST(Simulate, AddsTheLatencyOfEachStageBoundaryToTheTimeOfASingleMicroBatch) {
  // Three forward passes of 1 unit, two transfers, three backward passes of 2 units, two transfers.
  EXPECT_EQ(simulated("1f1b", {3, 1, 1}, {.link = {.latency = 0.5}}).makespan, 3 + 2 * 0.5 + 3 * 2 + 2 * 0.5);
}

TEST(Simulate, SendsOneTransferAtATimeOverALink) {
  // Rank 0 ends its forward passes at 1 and 2. Each activation takes 4 on the link: they arrive at 5 and 9. Rank 1
  // ends its forward passes at 6 and 10, its backward passes at 12 and 14. The gradients arrive at 16 and 20.
  const Costs costs{.bytes = 8, .link = {.bytes_per_time = 2}};
  const Simulation simulation = simulated("gpipe", {2, 1, 2}, costs);
  EXPECT_EQ(simulation.ranks[1].computations[0].start, 5);
  EXPECT_EQ(simulation.ranks[1].computations[1].start, 9);
  EXPECT_EQ(simulation.makespan, 22);
}

TEST(Simulate, UsesTheLatencyGivenForTransfersFromOneRankToAnother) {
  Costs costs;
  costs.links[{0, 1}] = {.latency = 10};
  EXPECT_EQ(simulated("1f1b", {2, 1, 1}, costs).makespan, 1 + 10 + 1 + 2 + 2);
}

TEST(Simulate, OverlappedForwardBackwardPairsWithAShorterTimeShortenTheStep) {
  const Simulation apart = simulated("dualpipe", {4, 1, 8});
  const Simulation together = simulated("dualpipe", {4, 1, 8}, {.overlapped = 2});
  EXPECT_LT(together.makespan, apart.makespan);
}

// Returns the share of the step in which rank 0 is idle.
double bubble_rate(const std::string& name, const Request& request, const Costs& costs) {
  const Simulation simulation = simulated(name, request, costs);
  return simulation.step_bubble(0) / simulation.makespan;
}

// Returns the costs of one stage of a rank that has `chunks` equal stages. costs: those of all stages of the rank
// together.
Costs of_chunk(Costs costs, int chunks) {
  for (double* time : {&costs.forward, &costs.input_gradient, &costs.weight_gradient}) *time /= chunks;
  return costs;
}

// Profiled times in ms of a model of 1.5 B parameters on 8 ranks (arXiv 2401.10241). In the interleaved schedule, the
// 22 layers, the embedding and the head are 24 stages, three on each rank.
const Costs& profiled() {
  static const Costs costs{
      .forward = 18.522, .input_gradient = 18.086, .weight_gradient = 9.337, .link = {.latency = 0.601}};
  return costs;
}
constexpr int profiled_chunks = 3;

// The expected bubble rates are the paper's for 24 and 64 micro-batches. The paper's times for 64 micro-batches differ
// slightly, so the rates for 64 are less exact.
TEST(Simulate, GivesTheBubbleRatesOfTheZeroBubblePaper) {
  const auto rate = [](const std::string& name, int microbatches) {
    const int chunks = name == "interleaved" ? profiled_chunks : 1;
    return bubble_rate(name, {8, chunks, microbatches}, of_chunk(profiled(), chunks));
  };
  EXPECT_NEAR(rate("1f1b", 24), 0.2431, 5e-5);
  EXPECT_NEAR(rate("zb-h1", 24), 0.1585, 5e-5);
  EXPECT_NEAR(rate("zb-h2", 24), 0.1083, 5e-5);
  EXPECT_NEAR(rate("interleaved", 24), 0.1055, 4e-3);
  EXPECT_NEAR(rate("1f1b", 64), 0.1240, 6e-3);
  EXPECT_NEAR(rate("zb-h1", 64), 0.0674, 6e-3);
  EXPECT_NEAR(rate("zb-h2", 64), 0.0444, 6e-3);
  EXPECT_NEAR(rate("interleaved", 64), 0.0443, 4e-3);
}

// A row of the zero-bubble paper: throughput (samples per GPU and second) and bubble rate of 1F1B and of another
// schedule.
struct PublishedPair {
  int microbatches;
  double samples_1f1b, samples, rate_1f1b, rate;
};

// The paper measures a smaller gain over 1F1B than its bubble rates promise. The simulated gain must lie between the
// two.
void expect_gain_as_published(const PublishedPair& row, double rate_1f1b, double rate) {
  const double gain = (1 - rate) / (1 - rate_1f1b);
  EXPECT_GE(gain, row.samples / row.samples_1f1b) << row.microbatches << " micro-batches";
  EXPECT_LE(gain, (1 - row.rate) / (1 - row.rate_1f1b)) << row.microbatches << " micro-batches";
}

TEST(Simulate, GivesTheGainOfInterleaved1f1bBetweenTheZeroBubblePapersThroughputsAndBubbleRates) {
  for (const PublishedPair& row : {PublishedPair{24, 11.8, 13.1, 0.2431, 0.1055}, {64, 13.6, 13.9, 0.1240, 0.0443}})
    expect_gain_as_published(
        row, bubble_rate("1f1b", {8, 1, row.microbatches}, profiled()),
        bubble_rate("interleaved", {8, profiled_chunks, row.microbatches}, of_chunk(profiled(), profiled_chunks)));
}

// ZB-V on 16 ranks with a model of 6.2 B parameters, whose stage times are not known. The test assumes F = B = W and a
// latency that is fitted to the bubble rate of 1F1B with 48 micro-batches. The rates of 1F1B with 64 and 128 test the
// fit.
TEST(Simulate, GivesTheGainOfZbvBetweenTheZeroBubblePapersThroughputsAndBubbleRates) {
  const Costs fitted{.link = {.latency = 0.0627}};
  for (const PublishedPair& row : {PublishedPair{48, 3.38, 4.15, 0.2668, 0.0697},
                                   {64, 3.57, 4.21, 0.2206, 0.0533},
                                   {128, 3.91, 4.35, 0.1390, 0.0274}}) {
    const double rate_1f1b = bubble_rate("1f1b", {16, 1, row.microbatches}, fitted);
    EXPECT_NEAR(rate_1f1b, row.rate_1f1b, 5e-4);
    expect_gain_as_published(row, rate_1f1b, bubble_rate("zbv", {16, 2, row.microbatches}, of_chunk(fitted, 2)));
  }
}

// Megatron-LM (arXiv 2104.04473, table 2): TFLOP/s per GPU of a model of 174.6 B parameters in 12 stages with tensor
// parallelism of 8, a batch of 1536 samples and micro-batches of one. More GPUs mean more replicas, and fewer
// micro-batches for each. The paper does not say if the schedule is interleaved; the loss fits 1F1B. The bounds are
// those of the printed figures, which are rounded to 1 TFLOP/s.
TEST(Simulate, GivesTheThroughputThatMegatronLosesToTheBubbleOnMoreGpus) {
  const auto busy_share = [](int gpus) { return 1 - bubble_rate("1f1b", {12, 1, 1536 / (gpus / (12 * 8))}, {}); };
  constexpr double rounding = 0.5, at_384 = 153;
  for (const auto& [gpus, tflops] : {std::pair{768, 149.0}, {1536, 141.0}}) {
    const double kept = busy_share(gpus) / busy_share(384);
    EXPECT_GE(kept, (tflops - rounding) / (at_384 + rounding)) << gpus << " GPUs";
    EXPECT_LE(kept, (tflops + rounding) / (at_384 - rounding)) << gpus << " GPUs";
  }
}

// Stage 1 takes three times as long as stage 0: 3 per F and 6 per B. Rank 0 computes F0 and F1 from 0 to 2; rank 1
// computes F0 B0 F1 B1 from 1 to 19; then rank 0 computes B1 for 2 more.
TEST(Simulation, GivesTheExactStepTimeIfStagesTakeDifferentTimes) {
  const Schedule schedule = make_schedule(*find_family("1f1b"), {.ranks = 2, .microbatches = 2});
  const Simulation simulation = simulate(schedule, {.stage_factors = {1, 3}});
  EXPECT_EQ(simulation.makespan, 1 + 2 * 3 * 3 + 2);
  EXPECT_EQ(simulation.ranks[0].busy, 6);
  EXPECT_EQ(simulation.ranks[1].busy, 18);
}

// Only the forward pass of stage 1 has a time of its own, 5. F0 runs from 0 to 1 on stage 0 and from 1 to 6 on stage 1.
// B0 runs from 6 to 8 on stage 1 and from 8 to 10 on stage 0.
TEST(Simulation, ATimeGivenForAPassOfOneStageReplacesTheGeneralTimeForThatStage) {
  const Schedule schedule = make_schedule(*find_family("1f1b"), {.ranks = 2, .microbatches = 1});
  const Simulation simulation = simulate(schedule, {.stage_times = {{{1, Kind::forward}, 5}}});
  EXPECT_EQ(simulation.makespan, 10);
  EXPECT_EQ(simulation.ranks[1].busy, 7);
}

TEST(Simulation, ListsATransferWithItsStartAndEndOnTheSendingAndTheReceivingRank) {
  const Simulation simulation = simulated("1f1b", {2, 1, 1}, {.link = {.latency = 0.5}});
  for (const auto& [rank, name] : {std::pair{0, "0SEND_F0"}, {1, "1RECV_F0"}}) {
    const Timed& first = simulation.ranks[rank].transfers.at(0);
    EXPECT_EQ(text_of(first.action), name);
    EXPECT_EQ(first.start, 1);
    EXPECT_EQ(first.end, 1.5);
  }
}

}  // namespace
}  // namespace dpbench::pipeline
