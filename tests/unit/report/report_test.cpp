#include "harness/report/record/report.h"
#include "harness/report/figures/summarise.h"

#include <gtest/gtest.h>

#include "harness/conform/filter.h"
#include "tests/support/contains.h"
#include "tests/support/sample_reports.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

using namespace test;

TEST(Report, TheTimeOfATimedBlockIsThatOfItsSlowestRank) {
  const LaunchRecord launch{.index = 0, .ranks = {rank_record(0, {100, 400}), rank_record(1, {300, 200})}};
  EXPECT_EQ(sample_step_ns(launch), (std::vector<double>{30, 40}));
}

TEST(Report, UsesOnlyTimedBlocksThatAllRanksHave) {
  const LaunchRecord launch{.index = 0, .ranks = {rank_record(0, {100, 100, 100}), rank_record(1, {200})}};
  EXPECT_EQ(sample_step_ns(launch), (std::vector<double>{20}));
}

// The worker's filter of checks and the command line's filter of cases accept the same regular expressions.
TEST(NamePattern, IsARegexOfRe2ThatMatchesAnywhereInTheName) {
  EXPECT_TRUE(NamePattern("(?i)CPU:\\d").matches("ddp/toy/cpu:2/shm"));
  EXPECT_TRUE(NamePattern("").matches("any"));
  EXPECT_FALSE(NamePattern("^toy").matches("ddp/toy"));
  EXPECT_TRUE(CheckFilter("gradient-\\w+").takes("gradient-meaning"));
  EXPECT_FALSE(CheckFilter("^meaning").takes("gradient-meaning"));
  EXPECT_THROW(CheckFilter("("), UsageError);
}

// A backtracking matcher would need exponential time for this pattern.
TEST(NamePattern, TakesTimeLinearInTheName) { EXPECT_FALSE(NamePattern("(a*)*b").matches(std::string(100000, 'a'))); }

TEST(NamePattern, RefusalNamesTheFaultAndItsPlace) {
  const auto refusal = [](const std::string& text) {
    try {
      NamePattern{text};
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return "accepted " + text;
  };
  expect_contains(refusal("ddp("), {"'ddp('", "RE2", "missing )"});
  expect_contains(refusal("ddp/[a-"), {"missing ]", "at '[a-'"});
  expect_contains(refusal("ddp/*+x"), {"bad repetition", "at '*+x'"});
  expect_contains(refusal(std::string(1000, 'a') + "{2000}"), {"repetition size", "at '{2000}'"});
  for (const std::string operation : {"(?=", "(?!", "(?<=", "(?<!"})
    expect_contains(refusal("x" + operation + "y)z"), {"lookahead", "lookbehind", "at '" + operation + "y)z'"});
  for (const std::string reference : {"\\1", "\\k<n>", "(?P=n)"})
    expect_contains(refusal("(a)" + reference), {"backreference", "at '" + reference + "'"});
}

// Weak scaling: one device takes 1,000 ns per step of 64 samples. Two devices take 1,250 ns for 64 samples each, so the
// speed-up is (128 / 1.25) / (64 / 1) = 1.6.
TEST(Report, SpeedupInWeakScalingComparesThroughputsAtEqualBatchPerDevice) {
  Report report =
      report_of({measured("cpu", 1, Scaling::weak, 64, 10000), measured("ddp", 2, Scaling::weak, 64, 12500)});
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.samples_per_s, 64e6);
  EXPECT_DOUBLE_EQ(*report.cases[1].derived.samples_per_s, 102.4e6);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.speedup, 1);
  EXPECT_DOUBLE_EQ(*report.cases[1].derived.speedup, 1.6);
  EXPECT_DOUBLE_EQ(*report.cases[1].derived.efficiency, 0.8);
}

// The batches of an epoch have 30, 30, 30 and 10 samples, which are 25 per step on average.
TEST(Report, ThroughputCountsTheSamplesOfShortBatches) {
  CaseRecord record = measured("cpu", 1, Scaling::strong, 30, 10000);
  for (auto& launch : record.launches) launch.ranks[0].rows_per_step = 25;
  Report report = report_of({record});
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.samples_per_s, 25e6);
}

// A step of 128 samples takes 2,000 ns on one device and 1,250 ns on two. The case with 64 samples is not the baseline,
// because its batch differs.
TEST(Report, SpeedupInStrongScalingComparesTimesAtEqualGlobalBatch) {
  Report report =
      report_of({measured("cpu", 1, Scaling::strong, 64, 10000), measured("cpu", 1, Scaling::strong, 128, 20000),
                 measured("ddp", 2, Scaling::strong, 128, 12500)});
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[2].derived.speedup, 1.6);
  EXPECT_DOUBLE_EQ(*report.cases[2].derived.efficiency, 0.8);
}

TEST(Report, OnlyAPassedBaselineWithTheSameSettingsAsTheCaseGivesASpeedup) {
  const CaseRecord ddp = measured("ddp", 2, Scaling::weak, 64, 12500);
  const auto speedup_against = [&](auto change) {
    CaseRecord baseline = measured("cpu", 1, Scaling::weak, 64, 10000);
    change(baseline);
    Report report = report_of({baseline, ddp});
    summarise(report);
    return report.cases[1].derived.speedup;
  };
  EXPECT_TRUE(speedup_against([](CaseRecord&) {}).has_value());
  EXPECT_FALSE(speedup_against([](CaseRecord& b) { b.spec.workload = "convnet"; }).has_value());
  EXPECT_FALSE(speedup_against([](CaseRecord& b) { b.spec.batch = 32; }).has_value());
  EXPECT_FALSE(speedup_against([](CaseRecord& b) { b.spec.dtype = Dtype::f64; }).has_value());
  EXPECT_FALSE(speedup_against([](CaseRecord& b) { b.spec.scale = 2; }).has_value());
  EXPECT_FALSE(speedup_against([](CaseRecord& b) { b.spec.threads = 2; }).has_value());
  EXPECT_FALSE(speedup_against([](CaseRecord& b) { b.spec.baseline = false; }).has_value());
  EXPECT_FALSE(
      speedup_against([](CaseRecord& b) { b.spec.strategy = "gpu", b.spec.device = Device::cuda; }).has_value());
  EXPECT_FALSE(speedup_against([](CaseRecord& b) { b.status = CaseStatus::wrong; }).has_value());
}

TEST(Report, ACaseWithAFailedCheckHasNoFigures) {
  CaseRecord record = measured("cpu", 1, Scaling::weak, 64, 10000);
  record.checks = {{.name = "output-shape", .status = CheckStatus::passed},
                   {.name = "gradient-vs-baseline", .status = CheckStatus::failed, .detail = "n.1.weight"}};
  Report report = report_of({record});
  summarise(report);
  EXPECT_EQ(report.cases[0].status, CaseStatus::wrong);
  expect_contains(report.cases[0].reason, {"gradient-vs-baseline", "n.1.weight"});
  EXPECT_FALSE(report.cases[0].step_time_ns.has_value());
  EXPECT_FALSE(report.cases[0].derived.samples_per_s.has_value());
  EXPECT_EQ(report.cases[0].launches.size(), 3u) << "the raw measurements are kept";
}

TEST(Report, TheReasonOfAWrongCaseIsTheFailedCheckThatCausedTheOthers) {
  const auto failed = [](const char* name, const std::string& detail) {
    return CheckRow{.name = name, .status = CheckStatus::failed, .detail = detail};
  };
  const auto cause = [](const std::vector<CheckRow>& rows) { return root_failure(rows)->name; };
  const CheckRow output = failed("output-value", "rank 1, step 1, scenario even"),
                 gradient = failed("gradient-meaning", "rank 1, step 1, scenario even"),
                 apart = failed("ranks-agree-parameters", "w, rank 1, step 0, scenario even"),
                 thrown = failed("run-completes", "rank 0, step 2, scenario even: no"),
                 whole_run = failed("collective-count", "twice as many");
  EXPECT_EQ(root_failure({}), nullptr);
  EXPECT_EQ(root_failure({{.name = "clip", .status = CheckStatus::passed}}), nullptr);
  EXPECT_EQ(cause({output, gradient}), "gradient-meaning") << "the wrong gradient is the cause in the same step";
  EXPECT_EQ(cause({output, gradient, apart}), "ranks-agree-parameters") << "an earlier step is the cause";
  EXPECT_EQ(cause({output, gradient, apart, thrown}), "run-completes");
  EXPECT_EQ(cause({whole_run, output}), "output-value") << "a check of the whole run follows from its steps";
}

TEST(Report, ASkippedCheckIsNotAFailure) {
  CaseRecord record = measured("cpu", 1, Scaling::weak, 64, 10000);
  record.checks = {{.name = "loss-falls", .status = CheckStatus::skipped, .detail = "one step"}};
  Report report = report_of({record});
  summarise(report);
  EXPECT_EQ(report.cases[0].status, CaseStatus::ok);
}

TEST(Report, ParametersThatDifferBetweenRanksMakeACaseWrong) {
  CaseRecord record = measured("ddp", 3, Scaling::weak, 64, 10000);
  record.launches[1].index = 1;
  record.launches[1].ranks[2].parameters_hash = "other";
  Report report = report_of({record});
  summarise(report);
  summarise(report);
  EXPECT_EQ(report.cases[0].status, CaseStatus::wrong);
  ASSERT_EQ(report.cases[0].checks.size(), 1u) << "once, even after two summaries";
  EXPECT_EQ(report.cases[0].checks[0].name, "equal-parameters");
  expect_contains(report.cases[0].checks[0].detail, {"launch 1", "rank 2", "other", "rank 0", "same"});
}

TEST(Report, AFailedCaseKeepsTheStatusFailedIfACheckFailedToo) {
  CaseRecord record = measured("cpu", 1, Scaling::weak, 64, 10000);
  record.status = CaseStatus::failed;
  record.checks = {{.name = "output-shape", .status = CheckStatus::failed}};
  Report report = report_of({record});
  summarise(report);
  EXPECT_EQ(report.cases[0].status, CaseStatus::failed);
  EXPECT_FALSE(report.cases[0].step_time_ns.has_value());
}

// Communication takes 30 of 100 ns on rank 0 and 10 of 60 ns on rank 1, together 40 of 160 ns.
TEST(Report, CommunicationFractionIsTheShareOfCommunicationInTheTimeOfAllPhases) {
  CaseRecord record = measured("ddp", 2, Scaling::weak, 64, 10000);
  for (auto& launch : record.launches) {
    launch.ranks[0].phases_ns = {{"forward", 70}, {"communication", 30}};
    launch.ranks[1].phases_ns = {{"forward", 50}, {"communication", 10}};
  }
  Report report = report_of({record});
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.comm_fraction, 0.25);
  EXPECT_DOUBLE_EQ(report.cases[0].mean_phases_ns()["forward"], 60);
}

TEST(Report, CommunicationFractionIsUnknownWithoutPhases) {
  Report report = report_of({measured("cpu", 1, Scaling::weak, 64, 10000)});
  summarise(report);
  EXPECT_FALSE(report.cases[0].derived.comm_fraction.has_value());
}

// Steps take 90, 100 and 110 ns. The median distance from 100 ns is 10 ns; scaled by 1.4826 and divided by 100 ns it is
// the noise.
TEST(Report, NoiseIsTheSpreadOfTimedBlocksRelativeToTheMedian) {
  CaseRecord record = measured("cpu", 1, Scaling::weak, 64, 1000);
  for (auto& launch : record.launches) launch.ranks[0].samples_ns = {900, 1000, 1100};
  Report report = report_of({record});
  summarise(report);
  EXPECT_DOUBLE_EQ(*report.cases[0].derived.noise, 0.14826);
}

// In the three launches (process starts), the 99th percentile of the slowest rank's step times is 50, 60 and 90 ns. The
// median over launches is 60 ns.
TEST(Report, StepTimePercentilesAreThoseOfTheSlowestRankInTheMedianLaunch) {
  CaseRecord record = measured("ddp", 2, Scaling::weak, 64, 10000);
  const int64_t p99[3][2] = {{50, 10}, {20, 60}, {90, 80}};
  for (int launch = 0; launch < 3; ++launch)
    for (int rank = 0; rank < 2; ++rank) record.launches[launch].ranks[rank].step_p99_ns = p99[launch][rank];
  Report report = report_of({record});
  summarise(report);
  EXPECT_EQ(report.cases[0].step_time_ns->p99, 60);
  EXPECT_EQ(report.cases[0].step_time_ns->p90, 1000) << "without step percentiles: those of the blocks";
}

CaseRecord of_launches(const std::vector<std::vector<int64_t>>& launches) {
  CaseRecord record = measured("cpu", 1, Scaling::weak, 64, std::vector<int64_t>());
  for (const auto& samples : launches)
    record.launches.push_back({.index = static_cast<int>(record.launches.size()), .ranks = {rank_record(0, samples)}});
  return record;
}

std::vector<std::string> notices(const std::vector<std::vector<int64_t>>& launches) {
  Report report = report_of({of_launches(launches)});
  summarise(report);
  summarise(report);  // summarising a report twice must not duplicate the notices
  return report.cases[0].notices;
}

TEST(Notices, AreEmptyForSteadyBlockTimes) {
  EXPECT_EQ(
      notices(
          {{1000, 1010, 990, 1005, 995, 1000}, {1002, 1012, 992, 1007, 997, 1002}, {1000, 1010, 990, 1005, 995, 1000}}),
      std::vector<std::string>{});
}

TEST(Notices, ReportTheNumberOfOutlierBlocks) {
  const std::vector<std::vector<int64_t>> launches = {{1000, 1001, 999, 1500, 1000, 1001},
                                                      {1000, 1001, 999, 1000, 1000, 1001}};
  ASSERT_EQ(notices(launches).size(), 1u);
  expect_contains(notices(launches)[0], {"1 of 12", "50 %"});
  EXPECT_TRUE(notices({{1000, 1001, 999, 1040, 1000, 1001}}).empty()) << "significant, but only 4 %";
}

TEST(Notices, ReportATrendOfBlockTimesWithItsDirection) {
  const std::vector<int64_t> rising = {1000, 1010, 1020, 1030, 1040, 1050, 1060, 1070};
  const std::vector<int64_t> falling(rising.rbegin(), rising.rend());
  ASSERT_EQ(notices({rising, rising}).size(), 1u);
  expect_contains(notices({rising, rising})[0], {"slower", "4 %"});
  expect_contains(notices({falling, falling}).at(0), {"faster", "4 %", "--warmup"});
  EXPECT_TRUE(notices({rising, falling}).empty());
  EXPECT_TRUE(notices({{1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007}}).empty()) << "a trend, but below 2 %";
}

TEST(Notices, ReportBlockTimesThatFormTwoClusters) {
  const std::vector<int64_t> clusters = {1000, 1201, 1001, 1200, 999, 1199, 1002, 1001, 1200, 1000};
  ASSERT_EQ(notices({clusters}).size(), 1u);
  expect_contains(notices({clusters})[0], {"two", "20 %"});
  EXPECT_TRUE(notices({{1000, 1180, 1040, 1140, 1080, 1100, 1160, 1020, 1120, 1060}}).empty())
      << "spread without a gap";
  EXPECT_TRUE(notices({{1000, 1031, 1001, 1030, 999, 1029, 1002, 1001, 1030, 1000}}).empty()) << "3 % apart";
}

TEST(Notices, ReportLaunchesWhoseTimesDiffer) {
  const auto found = notices({{1000, 1001, 999}, {1200, 1201, 1199}, {1000, 1001, 999}});
  ASSERT_EQ(found.size(), 1u);
  expect_contains(found[0], {"launches", "20 %"});
  EXPECT_TRUE(notices({{1000, 1100, 900}, {1200, 1300, 1100}, {1000, 1100, 900}}).empty())
      << "not more than blocks within a launch";
}

TEST(Report, SurvivesConversionToJsonAndBack) {
  CaseRecord skipped;
  skipped.spec.strategy = "gpu";
  skipped.spec.workload = "convnet";
  skipped.spec.id = "gpu/convnet";
  skipped.status = CaseStatus::skipped;
  skipped.reason = "no GPU";
  CaseRecord good = measured("ddp", 2, Scaling::weak, 64, 12500);
  good.checks = {
      {.name = "output-shape", .status = CheckStatus::passed, .compared = "a with b", .error = 0.5, .bound = 1}};
  good.warnings = {"hot"};
  Report report = report_of({measured("cpu", 1, Scaling::weak, 64, 10000), good, skipped});
  report.env = {{"fingerprint", "5f3a"}};
  report.tool = {{"version", "0.1.0"}};
  report.config = {{"samples", 3}};
  summarise(report);
  const Json json = to_json(report);
  EXPECT_EQ(to_json(report_from_json(parse_json(json.dump(), "x"))).dump(), json.dump());
  EXPECT_DOUBLE_EQ(json["cases"][1]["derived"]["speedup"].get<double>(), 1.6);
  EXPECT_EQ(json["cases"][1]["id"], "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32");
  EXPECT_TRUE(json["cases"][2]["stats"]["step_time_ns"].is_null());
}

TEST(Report, MissingConfidenceIntervalIsWrittenAsNull) {
  CaseRecord record = measured("cpu", 1, Scaling::weak, 64, 10000);
  record.launches.resize(1);
  record.launches[0].ranks[0].samples_ns.resize(1);
  Report report = report_of({record});
  summarise(report);
  EXPECT_TRUE(to_json(report)["cases"][0]["stats"]["step_time_ns"]["ci95_low"].is_null());
}

std::string refusal(const Json& json) {
  try {
    report_from_json(json);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Report, RefusesOtherKindsOfDocumentsAndOtherMajorVersions) {
  const Json good = to_json(report_of({measured("cpu", 1, Scaling::weak, 64, 10000)}));
  ASSERT_EQ(refusal(good), "");
  Json newer = good;
  newer["schema_version"]["minor"] = 7;
  newer["of_the_future"] = 1;
  EXPECT_EQ(refusal(newer), "") << "later minor versions only add keys";
  newer["schema_version"]["major"] = 2;
  expect_contains(refusal(newer), {"2.7"});
  expect_contains(refusal(Json{{"context", 1}, {"benchmarks", 2}}), {"dpbench.run"});
  EXPECT_NE(refusal(Json::array()), "");
}

TEST(Report, NamesThePathOfAnInvalidValue) {
  const Json good = to_json(report_of({measured("cpu", 1, Scaling::weak, 64, 10000)}));
  const auto with = [&](const char* pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return refusal(json);
  };
  expect_contains(with("/cases/0/status", "fine"),
                  {"report.cases[0].status", "'fine'", "ok, wrong, failed, skipped, unproven, disturbed, interrupted"});
  expect_contains(with("/cases/0/launches", 3), {"report.cases[0].launches"});
  expect_contains(with("/cases/0/stats", nullptr), {"report.cases[0].stats"});
  expect_contains(with("/cases", 3), {"report.cases"});
  EXPECT_NE(with("/cases/0/launches/0/ranks/0/samples_ns/0", -1), "");
  EXPECT_NE(with("/cases/0", nullptr), "");
  EXPECT_NE(with("/env", 1), "");
}

TEST(ChecksOfSeveralLaunches, KeepOnlyTheWorstResultOfEachCheck) {
  std::vector<CheckRow> all = {{.name = "audit", .status = CheckStatus::passed, .error = 0.5}};
  add_checks(all, {{.name = "audit", .status = CheckStatus::passed, .error = 0.1}});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].error, 0.5);
  add_checks(all, {{.name = "audit", .status = CheckStatus::failed, .error = 7}, {.name = "clip"}});
  add_checks(all, {{.name = "audit", .status = CheckStatus::skipped}});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].status, CheckStatus::failed);
}

TEST(Case, IsUnprovenIfEveryGradientCheckWasSkipped) {
  const CheckRow shape{.name = "output-shape"}, layout{.name = "gradient-layout"},
      refused{.name = "gradient-meaning", .status = CheckStatus::skipped, .detail = "refused: too small"},
      replayed{.name = "gradient-replay"}, audited{.name = "audit"};
  EXPECT_FALSE(why_unproven({}));
  EXPECT_FALSE(why_unproven({shape})) << "nobody asked for a gradient";
  ASSERT_TRUE(why_unproven({shape, layout, refused}));
  EXPECT_NE(why_unproven({shape, layout, refused})->find("too small"), std::string::npos);
  EXPECT_FALSE(why_unproven({refused, replayed}));
  EXPECT_FALSE(why_unproven({refused, audited}));
}

TEST(Case, IsUnprovenIfItsStrategyLeavesOutWhatAnAuditNeeds) {
  const CheckRow replayed{.name = "gradient-replay"};
  CheckRow audit{.name = "audit", .status = CheckStatus::skipped, .detail = "state() has no \"w.momentum\""};
  EXPECT_FALSE(why_unproven({replayed, audit})) << "not the strategy's fault";
  audit.likely = "state() leaves a tensor out";
  std::vector<CheckRow> launches = {{.name = "audit", .status = CheckStatus::passed}};
  add_checks(launches, {audit});
  EXPECT_TRUE(why_unproven(launches)) << "a passed audit of another launch does not hide it";
  ASSERT_TRUE(why_unproven({replayed, audit}));
  EXPECT_NE(why_unproven({replayed, audit})->find("w.momentum"), std::string::npos);
}

}  // namespace
}  // namespace dpbench
