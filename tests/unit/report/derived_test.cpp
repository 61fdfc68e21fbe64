// Time spans and derived figures (speed-up, efficiency, communication, power), compared with results computed by hand.
#include "harness/report/figures/derived.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "harness/report/export/trace.h"
#include "harness/report/figures/disturbance.h"
#include "harness/report/figures/spans.h"
#include "harness/report/figures/summarise.h"
#include "tests/support/contains.h"
#include "tests/support/sample_reports.h"

namespace dpbench {
namespace {

using test::measured;
using test::report_of;

std::vector<std::pair<int64_t, int64_t>> pairs(const Spans& spans) {
  std::vector<std::pair<int64_t, int64_t>> result;
  for (const Span& span : spans) result.emplace_back(span.from, span.until);
  return result;
}

TEST(TimeSpans, AreMergedIfTheyOverlapOrTouch) {
  EXPECT_EQ(pairs(merged({{5, 7}, {0, 2}, {2, 3}, {6, 9}, {4, 4}})),
            (std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {5, 9}}));
  EXPECT_EQ(length({{5, 7}, {0, 2}, {2, 3}, {6, 9}, {4, 4}}), 7);
}

TEST(TimeSpans, CommonToTwoListsAreTheirIntersection) {
  EXPECT_EQ(pairs(common({{0, 4}, {6, 10}}, {{3, 7}, {9, 20}})),
            (std::vector<std::pair<int64_t, int64_t>>{{3, 4}, {6, 7}, {9, 10}}));
  EXPECT_TRUE(common({{0, 4}}, {{4, 8}}).empty());
}

// Two gradient buckets are reduced, from 10 to 30 ns and from 25 to 50 ns. Computing ends at 28 ns, so later
// communication is exposed. The other rank enters the second allreduce at 35 ns, so this rank waits from 28 to 35 ns.
TEST(Communication, CountsAsExposedWhileTheRankDoesNotCompute) {
  const Communication found = communication_of({{{10, 30}, 12}, {{25, 50}, 35}}, {{28, 52}});
  EXPECT_EQ(found.total_ns, 40);
  EXPECT_EQ(found.exposed_ns, 22);
  EXPECT_EQ(found.hidden_ns, 18);
  EXPECT_EQ(found.waiting_ns, 7);
}

TEST(Communication, IsZeroWithoutCollectives) {
  const Communication found = communication_of({}, {{0, 10}});
  EXPECT_EQ(found.total_ns, 0);
  EXPECT_EQ(found.exposed_ns, 0);
}

// The Karp-Flatt metric inverts Amdahl's law: with a serial fraction f, the speed-up on p devices is 1 / (f + (1 - f) /
// p).
TEST(KarpFlatt, RecoversTheSerialFractionOfAmdahlsLaw) {
  EXPECT_NEAR(karp_flatt(1 / (0.1 + 0.9 / 8), 8), 0.1, 1e-12);
  EXPECT_NEAR(karp_flatt(4, 4), 0, 1e-12);
  EXPECT_LT(karp_flatt(2.2, 2), 0);
}

Profile profile(double step_ns, double waiting_ns) {
  return {.steps = 10,
          .step_ns = step_ns,
          .communication_ns = 400,
          .exposed_ns = 100,
          .hidden_ns = 300,
          .waiting_ns = waiting_ns,
          .flop = 5000};
}

TEST(PeakMemory, IsTheMedianOverLaunchesAndInOlderReportsTheMaximum) {
  CaseRecord record = measured("ddp", 2, Scaling::weak, 64, 10000);
  for (size_t i = 0; i < 3; ++i)
    for (RankRecord& rank : record.launches[i].ranks)
      rank.peak_rss_bytes = static_cast<int64_t>(100 + 10 * i) + rank.rank;
  const auto peak = [&] {
    Report report = report_of({record});
    summarise(report);
    return report.cases[0].derived.peak_memory_bytes.value_or(0);
  };
  EXPECT_EQ(peak(), 121);
  for (const auto& [launch, own] : std::vector<std::pair<size_t, int64_t>>{{0, 90}, {1, 50}, {2, 60}})
    record.launches[launch].ranks[1].own_rss_bytes = own;
  EXPECT_EQ(peak(), 60);
  record.launches[0].ranks[0].peak_device_bytes = 7;
  EXPECT_EQ(peak(), 7);
}

Report scaling_report() {
  // The steps take 1000 ns (cpu), 1250 ns (ddp, world 1) and 1600 ns (ddp, world 2), with weak scaling and 64 samples
  // per device.
  Report report = report_of({measured("cpu", 1, Scaling::weak, 64, 10000), measured("ddp", 1, Scaling::weak, 64, 12500),
                             measured("ddp", 2, Scaling::weak, 64, 16000)});
  report.cases[1].spec.backend = report.cases[2].spec.backend;
  for (auto& launch : report.cases[2].launches)
    for (auto& rank : launch.ranks) {
      rank.profile = profile(2000, rank.rank == 0 ? 900 : 0);
      rank.peak = Peak{.gemm_flop_per_s = 2e10, .triad_bytes_per_s = 1e10};
      rank.phases_ns = {{"forward", 1500}, {"communication", 300}, {"waiting", 200}};
    }
  summarise(report);
  return report;
}

// On a busy machine, the baseline's blocks may take so long that a case has an efficiency above 100 %. The notice on
// the efficiency comes before the other notices of the case.
TEST(DerivedFigures, TheNoticeOfAnEfficiencyAbove100PercentComesFirst) {
  for (const int world : {1, 2}) {
    Report report =
        report_of({measured("cpu", 1, Scaling::weak, 64, 10000), measured("ddp", world, Scaling::weak, 64, 8000)});
    for (LaunchRecord& launch : report.cases[1].launches) {
      launch.reference_ns.assign(launch.ranks[0].samples_ns.size(), 1000);
      launch.others = OtherLoad{.programs = 1};
      launch.ranks[0].samples_ns.back() *= 10;
      launch.ranks[0].warnings = {"another notice"};
    }
    summarise(report);
    const CaseRecord& record = report.cases[1];
    ASSERT_GT(record.derived.efficiency_low.value_or(0), 1) << world;
    ASSERT_GT(record.notices.size(), 1u);
    expect_contains(record.notices[0], {"efficiency above 100 %"});
    EXPECT_TRUE(above_ideal(record));
    EXPECT_FALSE(above_ideal(report.cases[0]));
  }
}

TEST(DerivedFigures, ANoticeReportsThatTheReferenceTakesAnotherTimeInTheCasesPairsThanInItsOwnCase) {
  for (const auto& [beside_ns, doubtful] :
       std::vector<std::pair<double, bool>>{{1000, false}, {1200, false}, {850, false}, {1400, true}, {700, true}}) {
    Report report =
        report_of({measured("cpu", 1, Scaling::weak, 64, 10000), measured("ddp", 2, Scaling::weak, 64, 16000)});
    for (LaunchRecord& launch : report.cases[1].launches)
      launch.reference_ns.assign(launch.ranks[0].samples_ns.size(), beside_ns);
    summarise(report);
    const auto told = std::ranges::count_if(report.cases[1].notices, [](const std::string& notice) {
      return notice.find("reference cpu ") != std::string::npos;
    });
    EXPECT_EQ(told == 1, doubtful) << beside_ns;
  }
}

TEST(DerivedFigures, CommunicationFiguresAreUnknownIfTheProfilesOfAllLaunchesWereDisturbed) {
  Report report = scaling_report();
  ASSERT_TRUE(report.cases[2].derived.comm_fraction.has_value());
  const auto told = [](const std::string& notice) { return notice.find("profiled steps") != std::string::npos; };
  auto& launches = report.cases[2].launches;
  for (size_t i = 1; i < launches.size(); ++i) drop_profile_times(launches[i].ranks);
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[2].derived.comm_fraction, 0.25) << "of the launch whose profile is calm";
  EXPECT_EQ(std::ranges::count_if(report.cases[2].notices, told), 0);
  drop_profile_times(launches[0].ranks);
  summarise(report);
  const CaseRecord& record = report.cases[2];
  EXPECT_FALSE(record.derived.comm_fraction || record.derived.waiting_ns || record.derived.skew);
  EXPECT_TRUE(to_json(report)["cases"][2]["phases"]["watched_step_ns"].is_null());
  EXPECT_EQ(std::ranges::count_if(record.notices, told), 1);
}

TEST(DerivedFigures, ASkippedAuditGivesANotice) {
  Report report = scaling_report();
  // Case 1 gets a passed check, because a case without one would be unproven.
  report.cases[1].checks = {
      {.name = "gradient-meaning"},
      {.name = "audit", .status = CheckStatus::skipped, .detail = "state() has no \"w.momentum\""}};
  report.cases[2].checks = {{.name = "audit"}};
  summarise(report);
  const auto told = [](const std::string& notice) {
    return notice.starts_with("not audited") && notice.ends_with("state() has no \"w.momentum\"");
  };
  EXPECT_EQ(std::ranges::count_if(report.cases[1].notices, told), 1);
  EXPECT_EQ(std::ranges::count_if(report.cases[2].notices, told), 0);
}

TEST(DerivedFigures, IncludeSpeedupsOverTheBaselineAndOverTheSameStrategyInWorldOne) {
  const Report report = scaling_report();
  const Derived& two = report.cases[2].derived;
  EXPECT_DOUBLE_EQ(*two.speedup, 2 * 1000.0 / 1600);
  EXPECT_DOUBLE_EQ(*two.own_speedup, 2 * 1250.0 / 1600);
  EXPECT_DOUBLE_EQ(*two.efficiency, 1000.0 / 1600);
  EXPECT_DOUBLE_EQ(*two.own_efficiency, 1250.0 / 1600);
  EXPECT_NEAR(*two.karp_flatt, (1 / 1.25 - 0.5) / 0.5, 1e-12);
  EXPECT_NEAR(*two.own_karp_flatt, (1 / 1.5625 - 0.5) / 0.5, 1e-12);
  EXPECT_FALSE(two.wrapper_cost);
}

// The case's steps take 1600 ns. In the neighbouring blocks, the baseline's steps took 800 to 1100 ns.
TEST(DerivedFigures, SpeedupIsTheMedianOverPairsOfBlocksWithAnInterval) {
  Report report = scaling_report();
  auto& launches = report.cases[2].launches;
  launches.resize(1);
  launches[0].reference_ns = {800, 1100, 960};
  summarise(report);
  const Derived& paired = report.cases[2].derived;
  EXPECT_DOUBLE_EQ(*paired.speedup, 2 * 960.0 / 1600);
  EXPECT_DOUBLE_EQ(*paired.speedup_low, 2 * 800.0 / 1600);
  EXPECT_DOUBLE_EQ(*paired.speedup_high, 2 * 1100.0 / 1600);
  EXPECT_DOUBLE_EQ(*paired.efficiency_high, 1100.0 / 1600);
  EXPECT_DOUBLE_EQ(*paired.samples_per_s, 128 / 1600e-9) << "the throughput is that of the case alone";
}

TEST(DerivedFigures, IntervalOfTheSpeedupIsStudentsTOverThreeLaunches) {
  Report report = scaling_report();
  auto& launches = report.cases[2].launches;
  for (size_t i = 0; i < 3; ++i) launches[i].reference_ns.assign(3, 900 + 100.0 * static_cast<double>(i));
  summarise(report);
  const Derived& paired = report.cases[2].derived;
  const Interval expected = log_t_interval(std::vector<double>{2 * 900.0 / 1600, 2 * 1000.0 / 1600, 2 * 1100.0 / 1600});
  EXPECT_DOUBLE_EQ(*paired.speedup_low, expected.low);
  EXPECT_DOUBLE_EQ(*paired.speedup_high, expected.high);
}

TEST(DerivedFigures, SpeedupOverAReferenceStrategyHasNoEfficiency) {
  Report report = scaling_report();
  report.config["reference"] = "ddp";
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[1].derived.speedup, 1);
  EXPECT_DOUBLE_EQ(*report.cases[2].derived.speedup, 1) << "the reference has the same world";
  EXPECT_FALSE(report.cases[2].derived.efficiency);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.speedup, 1.25);
}

TEST(DerivedFigures, ADisturbedReferenceIsNotReplacedByTheSameStrategyOverAnotherBackend) {
  Report report = scaling_report();
  report.config["reference"] = "ddp";
  report.cases.push_back(report.cases[2]);
  report.cases[3].spec.strategy = "zero1";
  report.cases.push_back(report.cases[2]);
  report.cases[4].spec.backend = "gloo";
  for (CaseRecord& record : report.cases) record.spec.id = case_id(record.spec);
  report.cases[2].launches[0].disturbed_blocks = 10;
  summarise(report);
  EXPECT_FALSE(report.cases[3].derived.speedup) << "ddp over shm is disturbed";
  EXPECT_DOUBLE_EQ(*report.cases[4].derived.speedup, 1) << "it is its own reference";
}

TEST(DerivedFigures, ACaseWithMoreDisturbedThanCountedBlocksHasNoFigures) {
  Report report = scaling_report();
  report.cases[2].launches[0].disturbed_blocks = 10;
  summarise(report);
  EXPECT_EQ(report.cases[2].status, CaseStatus::disturbed);
  EXPECT_FALSE(report.cases[2].step_time_ns);
  EXPECT_FALSE(report.cases[2].derived.speedup);
  EXPECT_EQ(report.cases[1].status, CaseStatus::ok);
}

TEST(DerivedFigures, ADisturbedBaselineGivesNoSpeedup) {
  Report report = scaling_report();
  report.cases[0].launches[0].disturbed_blocks = 10;
  summarise(report);
  EXPECT_FALSE(report.cases[2].derived.speedup);
}

TEST(Disturbance, StatesHowManyCasesWereDisturbedAndTheCoresThatOtherProgramsUsed) {
  Report report = scaling_report();
  report.env = {{"cpu", {{"usable", 2}}}};
  report.cases[0].launches[0].others = OtherLoad{.programs = 0.1};
  report.cases[1].launches[1].others = OtherLoad{.programs = 1.0};
  report.cases[2].launches[1].others = OtherLoad{.programs = 1.5, .host = 0.3};
  report.cases[2].launches[0].disturbed_blocks = 10;
  summarise(report);
  EXPECT_TRUE(mentions_in_order(
      report.disturbance, {"1 of 3 cases", "1.0 to 1.5 of 2 cores", "2 of 3 cases", "0.3 of 2 cores", "1 of 3 cases"}));
  EXPECT_EQ(scaling_report().disturbance, "");
}

TEST(DerivedFigures, WrapperCostIsTheSlowdownInWorldOneRelativeToTheBaseline) {
  const Report report = scaling_report();
  EXPECT_DOUBLE_EQ(*report.cases[1].derived.wrapper_cost, 0.25);
  EXPECT_FALSE(report.cases[0].derived.wrapper_cost);
}

TEST(DerivedFigures, ShareOfPeakFlopUsesOperationsAndPeaksOfAllRanks) {
  const Derived two = scaling_report().cases[2].derived;
  EXPECT_DOUBLE_EQ(*two.flop_per_step, 10000);
  EXPECT_DOUBLE_EQ(*two.flop_per_s, 10000 / 1600e-9);
  EXPECT_DOUBLE_EQ(*two.peak_flop_per_s, 4e10);
  EXPECT_DOUBLE_EQ(*two.flop_share, 10000 / 1600e-9 / 4e10);
}

TEST(DerivedFigures, TokenRateAndFormulaFlopAreComputedFromTheSamples) {
  CaseRecord one = measured("cpu", 1, Scaling::weak, 4, 2000);
  for (auto& launch : one.launches)
    for (auto& rank : launch.ranks) rank.tokens_per_sample = 128, rank.flop_per_sample = 1e6;
  Report report = report_of({one, measured("ddp", 2, Scaling::weak, 4, 2000)});
  summarise(report);
  const Derived with = report.cases[0].derived;
  EXPECT_DOUBLE_EQ(*with.tokens_per_s, 128 * *with.samples_per_s);
  EXPECT_DOUBLE_EQ(*with.formula_flop_per_step, 4e6);
  EXPECT_FALSE(report.cases[1].derived.tokens_per_s);
  EXPECT_FALSE(report.cases[1].derived.formula_flop_per_step);
}

TEST(DerivedFigures, FormulaBytesOfCollectivesAreMeansOverRanksAndUnknownIfAnOperationHasNoFormula) {
  CaseRecord ddp = measured("ddp", 2, Scaling::weak, 4, 2000);
  for (auto& launch : ddp.launches)
    for (auto& rank : launch.ranks) {
      rank.profile = Profile{.steps = 1, .step_ns = 2000};
      rank.profile->ledger = {{.formula_bytes = 10, .formula_calls = 2},
                              {.formula_bytes = rank.rank == 0 ? 30 : 10, .formula_calls = std::nullopt}};
    }
  Report report = report_of({ddp});
  summarise(report);
  EXPECT_EQ(report.cases[0].derived.formula_collective_bytes_per_step, 30);
  EXPECT_EQ(report.cases[0].derived.formula_collectives_per_step, std::nullopt);
}

TEST(DerivedFigures, PeakFlopOfASingleProcessIsMultipliedByItsReplicas) {
  CaseRecord dp = measured("dp", 4, Scaling::weak, 64, 16000);
  for (auto& launch : dp.launches) launch.ranks[0].peak = Peak{.gemm_flop_per_s = 1e10, .triad_bytes_per_s = 1e10};
  Report report = report_of({dp});
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.peak_flop_per_s, 4e10);
}

TEST(DerivedFigures, CommunicationFractionIsTheShareOfCommunicationAndWaitingInTheStep) {
  const Derived two = scaling_report().cases[2].derived;
  EXPECT_DOUBLE_EQ(*two.comm_fraction, 0.25);
  EXPECT_DOUBLE_EQ(*two.communication_ns, 400);
  EXPECT_DOUBLE_EQ(*two.exposed_ns, 100);
  EXPECT_DOUBLE_EQ(*two.overlap, 0.75);
}

GpuCounters gpu(const std::string& bus, std::optional<double> watts, int64_t readings, int64_t throttled) {
  GpuCounters counters{.pci_bus = bus, .readings = readings, .mean_power_w = watts, .throttled_readings = throttled};
  if (throttled > 0) counters.throttle_reasons = {"sw_power_cap"};
  return counters;
}

// Two ranks have a GPU each. The GPUs draw 520 + 300, 500 + 300 and 400 + 300 W in the three launches (process starts).
// In 3 of 24 readings, a GPU is throttled.
TEST(DerivedFigures, PowerIsTheSumOverGpusInTheMedianLaunch) {
  CaseRecord record = measured("ddp", 2, Scaling::weak, 64, 16000);
  const double watts[] = {520, 500, 400};
  for (size_t i = 0; i < 3; ++i) {
    record.launches[i].ranks[0].gpus = {gpu("1B", watts[i], 4, i == 1 ? 3 : 0)};
    record.launches[i].ranks[1].gpus = {gpu("1C", 300, 4, 0)};
  }
  Report report = report_of({record});
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.gpu_power_w, 800);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.throttled_share, 0.125);
  ASSERT_EQ(report.cases[0].notices.size(), 1u);
  expect_contains(report.cases[0].notices[0], {"12 %", "rank 0", "1B", "sw_power_cap", "nvidia-smi -pl"});
}

TEST(DerivedFigures, PowerOfAGpuSharedByRanksCountsOnce) {
  CaseRecord record = measured("ddp", 2, Scaling::weak, 64, 16000);
  record.spec.oversubscribe = true;
  for (auto& launch : record.launches)
    for (auto& rank : launch.ranks) rank.gpus = {gpu("1B", 500, 4, 0)};
  Report report = report_of({record});
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.gpu_power_w, 500);
}

// Each of two hosts has one GPU at bus 1B, which two ranks share.
TEST(DerivedFigures, GpusOnDifferentHostsWithTheSameBusIdAreDistinct) {
  CaseRecord record = measured("ddp", 4, Scaling::weak, 64, 16000);
  record.spec.oversubscribe = true;
  for (auto& launch : record.launches)
    for (auto& rank : launch.ranks) rank.gpus = {gpu("1B", rank.rank < 2 ? 500 : 300, 4, 0)};
  Report report = report_of({record});
  report.env["hosts"] = {{{"name", "a"}, {"ranks", {0, 1}}}, {{"name", "b"}, {"ranks", {2, 3}}}};
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.gpu_power_w, 800);
  report.env["hosts"] = Json::array({1, Json{{"ranks", "all"}}, Json{{"ranks", {"x"}}}});
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.gpu_power_w, 500) << "malformed hosts are ignored";
}

TEST(DerivedFigures, IncludePowerAndThrottlingOnlyForCasesOnGpus) {
  CaseRecord with = measured("ddp", 1, Scaling::weak, 64, 16000);
  with.launches[0].ranks[0].gpus = {gpu("1B", 500, 4, 1)};
  Report report = report_of({with, measured("ddp", 1, Scaling::weak, 128, 16000)});
  summarise(report);
  EXPECT_TRUE(report.cases[0].derived.gpu_power_w && report.cases[0].derived.throttled_share);
  EXPECT_TRUE(report.cases[1].derived.samples_per_s);
  EXPECT_FALSE(report.cases[1].derived.gpu_power_w);
  EXPECT_FALSE(report.cases[1].derived.throttled_share);
}

TEST(DerivedFigures, PowerIsUnknownWhenTheDriverDoesNotReportIt) {
  CaseRecord record = measured("cpu", 1, Scaling::weak, 64, 16000);
  record.launches[0].ranks[0].gpus = {gpu("1B", std::nullopt, 3, 0)};
  Report report = report_of({record});
  summarise(report);
  EXPECT_FALSE(report.cases[0].derived.gpu_power_w);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.throttled_share, 0);
  EXPECT_TRUE(report.cases[0].notices.empty());
}

TEST(DerivedFigures, NoiseOfASingleTimedBlockIsUnknown) {
  CaseRecord record = measured("cpu", 1, Scaling::weak, 64, std::vector<int64_t>{10000});
  record.launches[0].ranks[0].samples_ns = {10000};
  Report report = report_of({record});
  summarise(report);
  EXPECT_TRUE(report.cases[0].step_time_ns);
  EXPECT_FALSE(report.cases[0].derived.noise);
}

TEST(DerivedFigures, AreUnknownWithoutTheMeasurementsThatTheyNeed) {
  const Derived one = scaling_report().cases[0].derived;
  EXPECT_FALSE(one.flop_per_step);
  EXPECT_FALSE(one.flop_share);
  EXPECT_FALSE(one.overlap);
  EXPECT_FALSE(one.skew);
  EXPECT_FALSE(one.collectives_per_step);
}

// Rank 0 waits during 900 of 2000 ns, so it is busy for 1100 ns and rank 1 for 2000 ns.
TEST(Straggler, IsTheRankThatComputesWhileOthersWait) {
  const Derived two = scaling_report().cases[2].derived;
  EXPECT_NEAR(*two.skew, 2000.0 / 1100 - 1, 1e-12);
  EXPECT_EQ(two.straggler, 1);
}

TEST(Straggler, IsNotARankThatWaitedForACore) {
  Report report = scaling_report();
  for (auto& one : report.cases[2].launches) one.ranks[1].profile->queue_ns = 900;
  summarise(report);
  EXPECT_FALSE(report.cases[2].derived.straggler);
}

TEST(Straggler, IsReportedOnlyIfConsistentOverLaunchesAndFarFromOtherRanks) {
  Report report = scaling_report();
  auto& launch = report.cases[2].launches[0];
  launch.ranks[0].profile = profile(2000, 0);
  launch.ranks[1].profile = profile(2000, 900);
  summarise(report);
  EXPECT_FALSE(report.cases[2].derived.straggler);
  EXPECT_TRUE(report.cases[2].derived.skew);
  report = scaling_report();
  for (auto& one : report.cases[2].launches) one.ranks[0].profile = profile(2000, 100);
  summarise(report);
  EXPECT_FALSE(report.cases[2].derived.straggler);
}

Json trace_of(int64_t pid, int64_t base, double ts) {
  return {
      {"baseTimeNanoseconds", base},
      {"traceEvents",
       {{{"ph", "X"}, {"cat", "cpu_op"}, {"name", "aten::mm"}, {"pid", pid}, {"tid", 7}, {"ts", ts}, {"dur", 2}},
        {{"ph", "X"},
         {"cat", "kernel"},
         {"name", "gemm"},
         {"pid", 0},
         {"tid", 7},
         {"ts", ts},
         {"args", {{"stream", 7}}}},
        {{"ph", "s"}, {"name", "ac2g"}, {"id", 5}, {"pid", pid}, {"tid", 7}, {"ts", ts}},
        {{"ph", "M"}, {"name", "process_name"}, {"pid", pid}, {"tid", 0}, {"args", {{"name", "python"}}}},
        {{"ph", "X"}, {"name", "PyTorch Profiler (0)"}, {"pid", "Spans"}, {"tid", "PyTorch Profiler"}, {"ts", ts}}}}};
}

TEST(Trace, MergesTheTracesOfRanksIntoSeparateRowsOnOneClock) {
  const Json merged = merged_trace({trace_of(4242, 1000000, 10), trace_of(4243, 3000000, 10)});
  std::map<std::string, std::vector<Json>> named;
  for (const Json& event : merged["traceEvents"]) named[event["name"]].push_back(event);
  ASSERT_EQ(named["aten::mm"].size(), 2u);
  EXPECT_NE(named["aten::mm"][0]["pid"], named["aten::mm"][1]["pid"]);
  EXPECT_DOUBLE_EQ(named["aten::mm"][0]["ts"].get<double>(), 10);
  EXPECT_DOUBLE_EQ(named["aten::mm"][1]["ts"].get<double>(), 2010);
  EXPECT_NE(named["gemm"][0]["pid"], named["aten::mm"][0]["pid"]);
  EXPECT_NE(named["ac2g"][0]["id"], named["ac2g"][1]["id"]);
  EXPECT_TRUE(named["PyTorch Profiler (0)"].empty());
  std::map<int64_t, std::string> rows;
  for (const Json& event : named["process_name"]) rows[event["pid"].get<int64_t>()] = event["args"]["name"];
  EXPECT_EQ(rows[named["aten::mm"][1]["pid"].get<int64_t>()], "rank 1");
  EXPECT_EQ(rows[named["gemm"][1]["pid"].get<int64_t>()], "rank 1, GPU 0");
}

TEST(Trace, ShowsCollectivesInProgressAtTheSameTimeInDifferentRows) {
  Json trace = trace_of(4242, 1000000, 10);
  add_collectives(trace, 4242,
                  {{.op = "allgather", .axis = "shard", .bytes = 64, .from_ns = 1000500, .until_ns = 1002000},
                   {.op = "reduce_scatter", .axis = "shard", .bytes = 8, .from_ns = 1001000, .until_ns = 1003000},
                   {.op = "allreduce", .axis = "dp", .bytes = 8, .from_ns = 1002000, .until_ns = 1002500}});
  std::map<std::string, Json> named;
  const Json merged = merged_trace(std::vector<Json>(1, trace));
  for (const Json& event : merged["traceEvents"]) named[event["name"]] = event;
  EXPECT_DOUBLE_EQ(named["allgather"]["ts"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(named["allgather"]["dur"].get<double>(), 1.5);
  EXPECT_EQ(named["allgather"]["args"]["bytes"], 64);
  EXPECT_NE(named["reduce_scatter"]["tid"], named["allgather"]["tid"]);
  EXPECT_EQ(named["allreduce"]["tid"], named["allgather"]["tid"]) << "it begins when the first one has ended";
  EXPECT_EQ(named["thread_name"]["args"]["name"], "collectives in progress");
  EXPECT_EQ(named["allgather"]["pid"], named["aten::mm"]["pid"]);
}

TEST(Trace, FileNamesContainNoSlashesSpacesOrColons) {
  EXPECT_EQ(trace_stem("ddp/a b/cpu:2/x=1"), "ddp_a_b_cpu_2_x=1");
}

}  // namespace
}  // namespace dpbench
