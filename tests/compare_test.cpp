#include "harness/report/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "harness/report/compare_output.h"
#include "tests/sample_reports.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

using namespace test;
namespace fs = std::filesystem;

// Launches of steps of so many ns.
using Times = std::vector<int64_t>;
const Times base_times = {1000, 1010, 990, 1020, 980}, slower_times = {1070, 1080, 1060, 1090};
const Times base_baseline = {500, 510, 490, 500, 520}, new_baseline = {500, 505, 495, 510};

Times scaled(const Times& times, double factor) {
  Times result;
  for (const int64_t t : times)
    result.push_back(std::llround(static_cast<double>(t) * 10 * factor));  // 10 steps a sample
  return result;
}

CaseRecord ddp(const Times& times, double factor = 1) { return measured("ddp", 2, "weak", 64, scaled(times, factor)); }
CaseRecord cpu(const Times& times) { return measured("cpu", 1, "weak", 64, scaled(times, 1)); }

Report run_of(std::vector<CaseRecord> cases, const std::string& id = "new") {
  Report report = report_of(std::move(cases));
  report.id = id;
  summarise(report);
  return report;
}

Comparison compared(const Report& base, const Report& now, const std::string& rules = "median:5%") {
  return compare(base, now, make_gate({rules}));
}

Verdict verdict(const Times& base, const Times& now, const std::string& rule = "median:5%") {
  const Comparison result = compared(run_of({ddp(base)}), run_of({ddp(now)}), rule);
  EXPECT_EQ(result.judged.size(), 1u);
  return result.judged.at(0).verdict;
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "not refused";
}

// a = numpy.log(base); b = numpy.log(new); r = scipy.stats.ttest_ind(b, a, equal_var=False)
// b.mean() - a.mean(); r.confidence_interval(0.95)
TEST(Welch, AgreesWithScipyOnTheLogsOfLaunchMedians) {
  const Comparison result = compared(run_of({ddp(base_times)}), run_of({ddp(slower_times)}));
  EXPECT_NEAR(result.judged[0].change.estimate, 0.0723665904980777, 1e-12);
  EXPECT_NEAR(result.judged[0].change.low, 0.0504269169319978, 1e-9);
  EXPECT_NEAR(result.judged[0].change.high, 0.0943062640641576, 1e-9);
  EXPECT_EQ(result.judged[0].verdict, Verdict::slower);
}

// The same with four groups (case and baseline of both runs) in numpy: V = sum of var/n, df = V^2 / sum((var/n)^2 / (n
// - 1)), half = scipy.stats.t.ppf(0.975, df) * sqrt(V)
TEST(Welch, TakesTheBaselinesNoiseIntoARatioToIt) {
  const Comparison result = compared(run_of({cpu(base_baseline), ddp(base_times)}),
                                     run_of({cpu(new_baseline), ddp(slower_times)}), "ratio-to-baseline:5%");
  ASSERT_EQ(result.judged.size(), 1u) << "the baseline is not judged against itself";
  EXPECT_NEAR(result.judged[0].change.estimate, 0.07520506155050466, 1e-12);
  EXPECT_NEAR(result.judged[0].change.low, 0.042350992296182, 1e-9);
  EXPECT_NEAR(result.judged[0].change.high, 0.10805913080482732, 1e-9);
}

// Weak scaling: efficiency = baseline's time / case's time = 0.5039 and 0.4674; weights 100 x efficiency in the same
// formula.
TEST(Welch, JudgesEfficiencyInPoints) {
  const Report base = run_of({cpu(base_baseline), ddp(base_times)}),
               now = run_of({cpu(new_baseline), ddp(slower_times)});
  const Judgement j = compared(base, now, "efficiency:3").judged.at(0);
  EXPECT_NEAR(j.base, 0.503947573613601, 1e-12);
  EXPECT_NEAR(j.now, 0.4674382154372583, 1e-12);
  EXPECT_NEAR(j.change.estimate, 3.650935817634271, 1e-9);
  EXPECT_NEAR(j.change.low, 2.028950982619992, 1e-7);
  EXPECT_NEAR(j.change.high, 5.2729206526485495, 1e-7);
  EXPECT_EQ(j.verdict, Verdict::slower);
  EXPECT_EQ(compared(base, now, "efficiency:5").judged.at(0).verdict, Verdict::unclear) << "5 lies between 2.0 and 5.3";
  EXPECT_EQ(compared(base, now, "efficiency:6").judged.at(0).verdict, Verdict::same);
}

TEST(Verdict, FollowsItsRulesInOrder) {
  const double limit = 0.05;
  EXPECT_EQ(verdict_of({0.50, 0.40, 0.60}, limit, 3), Verdict::unclear) << "too few launches, whatever the figures";
  EXPECT_EQ(verdict_of({0.06, 0.01, 0.11}, limit, 4), Verdict::slower);
  EXPECT_EQ(verdict_of({0.06, -0.01, 0.13}, limit, 4), Verdict::unclear) << "no change is not excluded";
  EXPECT_EQ(verdict_of({0.04, 0.02, 0.06}, limit, 4), Verdict::unclear) << "the limit is not excluded";
  EXPECT_EQ(verdict_of({0.04, 0.03, 0.049}, limit, 4), Verdict::same) << "slower, but surely less than the limit";
  EXPECT_EQ(verdict_of({0.00, -0.04, 0.04}, limit, 4), Verdict::same);
  EXPECT_EQ(verdict_of({0.00, -0.06, 0.06}, limit, 4), Verdict::unclear);
  EXPECT_EQ(verdict_of({-0.06, -0.11, -0.01}, limit, 4), Verdict::faster);
  EXPECT_EQ(verdict_of({-0.04, -0.06, -0.02}, limit, 4), Verdict::unclear);
  EXPECT_EQ(verdict_of({-0.04, -0.049, -0.03}, limit, 4), Verdict::same);
}

TEST(Verdict, NeedsFourLaunchesOnEitherSide) {
  const Times four = {1000, 1001, 999, 1000}, three = {2000, 2001, 1999}, four_slow = {2000, 2001, 1999, 2000};
  EXPECT_EQ(verdict(four, three), Verdict::unclear);
  EXPECT_EQ(verdict(three, four), Verdict::unclear);
  EXPECT_EQ(verdict(four, four_slow), Verdict::slower);
  EXPECT_EQ(verdict(four_slow, four), Verdict::faster);
  EXPECT_EQ(verdict(four, four), Verdict::same);
}

TEST(Verdict, OneLaunchEachIsUnclearAndHasNoInterval) {
  const Comparison result = compared(run_of({ddp({1000})}), run_of({ddp({2000})}));
  EXPECT_EQ(result.judged.at(0).verdict, Verdict::unclear);
  EXPECT_TRUE(std::isinf(result.judged[0].change.high));
  EXPECT_TRUE(compare_json(result)["judged"][0]["ci95_low_percent"].is_null());
}

TEST(Metrics, HostMemoryOfAnOlderReportIsNotComparedWithANewerOnes) {
  const auto with = [](int64_t own, int64_t device) {
    CaseRecord record = ddp({1000, 1001, 999, 1000});
    for (auto& launch : record.launches)
      launch.ranks[0].peak_rss_bytes = 100, launch.ranks[0].own_rss_bytes = own, launch.ranks[0].peak_device_bytes = device;
    return run_of({record});
  };
  EXPECT_EQ(compared(with(50, 0), with(60, 0), "peak-memory:10%").judged.at(0).verdict, Verdict::slower);
  EXPECT_NE(refusal([&] { compared(with(0, 0), with(50, 0), "peak-memory:10%"); }).find("measure the base run anew"),
            std::string::npos);
  EXPECT_EQ(compared(with(0, 7), with(50, 7), "peak-memory:10%").judged.at(0).verdict, Verdict::same);
}

TEST(Metrics, EachIsJudgedInItsOwnDirection) {
  const auto with = [](int64_t p99, int64_t rss, int64_t device) {
    CaseRecord record = ddp({1000, 1001, 999, 1000});
    for (auto& launch : record.launches) {
      launch.ranks[1].step_p99_ns = p99;
      launch.ranks[0].peak_rss_bytes = rss;
      launch.ranks[1].peak_device_bytes = device;
    }
    return run_of({record});
  };
  const auto judged = [](const Report& base, const Report& now, const char* rule) {
    return compared(base, now, rule).judged.at(0).verdict;
  };
  EXPECT_EQ(judged(with(100, 1, 0), with(120, 1, 0), "p99:10%"), Verdict::slower);
  EXPECT_EQ(judged(with(120, 1, 0), with(100, 1, 0), "p99:10%"), Verdict::faster);
  EXPECT_EQ(judged(with(1, 100, 0), with(1, 120, 0), "peak-memory:10%"), Verdict::slower);
  EXPECT_EQ(judged(with(1, 100, 0), with(1, 109, 0), "peak-memory:10%"), Verdict::same);
  EXPECT_EQ(judged(with(1, 100, 50), with(1, 900, 50), "peak-memory:10%"), Verdict::same) << "a GPU's memory counts";
  EXPECT_EQ(verdict({1000, 1001, 999, 1000}, {1200, 1201, 1199, 1200}, "throughput:10%"), Verdict::slower);
  EXPECT_EQ(verdict({1200, 1201, 1199, 1200}, {1000, 1001, 999, 1000}, "throughput:10%"), Verdict::faster);
}

// Time x 1.0526 is throughput x 0.95; time x 1.05 only 0.952.
TEST(Metrics, AFallOfThroughputIsMeasuredFromItsOwnBase) {
  const Times base = {100000, 100001, 99999, 100000};
  EXPECT_EQ(verdict(base, {105400, 105401, 105399, 105400}, "throughput:5%"), Verdict::slower);
  EXPECT_EQ(verdict(base, {105100, 105101, 105099, 105100}, "throughput:5%"), Verdict::same);
  EXPECT_EQ(verdict(base, {105100, 105101, 105099, 105100}, "median:5%"), Verdict::slower);
}

TEST(Compare, ACaseThatIsWrongGetsNoSpeedVerdictAndFailsTheGate) {
  CaseRecord wrong = ddp(base_times, 0.5);
  wrong.checks = {{.name = "gradient-vs-baseline", .status = "failed"}};
  const Comparison result = compared(run_of({ddp(base_times)}), run_of({wrong}));
  EXPECT_TRUE(result.judged.empty());
  ASSERT_EQ(result.broken.size(), 1u);
  EXPECT_NE(result.broken[0].why.find("gradient-vs-baseline"), std::string::npos);
  EXPECT_TRUE(result.failed());
}

TEST(Compare, AWrongCaseFailsTheGateEvenIfItIsNew) {
  CaseRecord wrong = measured("dp", 2, "weak", 64, 10000);
  wrong.checks = {{.name = "output-shape", .status = "failed"}};
  EXPECT_TRUE(compared(run_of({ddp(base_times)}), run_of({ddp(base_times), wrong})).failed());
}

TEST(Compare, ACaseThatNowCrashesFailsTheGate) {
  CaseRecord crashed = ddp({});
  crashed.status = "failed", crashed.reason = "rank 1 was killed by signal 11";
  const Comparison result = compared(run_of({ddp(base_times)}), run_of({crashed}));
  ASSERT_EQ(result.broken.size(), 1u);
  EXPECT_EQ(result.broken[0].why, "failed: rank 1 was killed by signal 11");
}

TEST(Compare, ACaseThatCrashesFailsTheGateWhateverItWasBefore) {
  CaseRecord crashed = ddp({}), wrong = ddp(base_times), skipped = ddp({});
  crashed.status = "failed", crashed.reason = "boom";
  wrong.checks = {{.name = "output-shape", .status = "failed"}};
  skipped.status = "skipped";
  for (const CaseRecord& before : {crashed, wrong, skipped})
    for (const CaseRecord& now : {crashed, wrong})
      EXPECT_TRUE(compared(run_of({cpu(base_baseline), before}), run_of({cpu(new_baseline), now})).failed())
          << before.status << " before";
}

TEST(Compare, ACaseThatWasNotMeasuredIsNeverGreen) {
  CaseRecord skipped = ddp({}), crashed = measured("dp", 2, "weak", 64, Times{});
  skipped.status = "skipped", skipped.reason = "no GPU";
  crashed.status = "failed", crashed.reason = "boom";
  const Report good = run_of({cpu(base_baseline), ddp(base_times), measured("dp", 2, "weak", 64, 10000)});
  const Comparison result = compared(good, run_of({cpu(base_baseline), skipped}));
  ASSERT_EQ(result.unmeasured.size(), 1u);
  EXPECT_EQ(result.unmeasured[0].why, "new run: skipped: no GPU");
  EXPECT_TRUE(result.inconclusive());
  EXPECT_FALSE(result.failed());
  const Comparison mended = compared(run_of({cpu(base_baseline), crashed}), good);
  EXPECT_EQ(mended.unmeasured.at(0).why, "base run: failed: boom");
  EXPECT_EQ(refusal([&] { compared(run_of({ddp(base_times)}), run_of({skipped})); }),
            "nothing was judged: ddp/mnist-mlp/cpu:2/shm/weak/b64/f32: new run: skipped: no GPU");
}

TEST(Compare, NewAndGoneCasesAreListed) {
  const Comparison result = compared(run_of({ddp(base_times), measured("dp", 2, "weak", 64, 10000)}),
                                     run_of({ddp(base_times), cpu(base_baseline)}));
  ASSERT_EQ(result.added.size(), 1u);
  ASSERT_EQ(result.gone.size(), 1u);
  EXPECT_EQ(result.added[0].case_id, "cpu/mnist-mlp/cpu:1/weak/b64/f32");
  EXPECT_EQ(result.gone[0].case_id, "dp/mnist-mlp/cpu:2/weak/b64/f32");
  EXPECT_FALSE(result.failed());
}

TEST(Compare, NoCaseInCommonIsAnError) {
  EXPECT_EQ(refusal([] { compared(run_of({ddp(base_times)}, "old"), run_of({cpu(base_baseline)})); }),
            "nothing to compare: no case of new (1) is in old (1)");
  EXPECT_NE(refusal([] { compared(run_of({}), run_of({})); }), "not refused");
}

Report on_machine(Report report, const std::string& pointer, const Json& value) {
  report.env = {{"cpu", {{"model", "A"}, {"usable", 2}}}, {"gpus", Json::array()}, {"versions", {{"torch", "2.11.0"}}}};
  report.env[Json::json_pointer(pointer)] = value;
  return report;
}

TEST(Compare, UnlikeMachinesAreRefusedWithTheFieldNamed) {
  const Report base = on_machine(run_of({ddp(base_times)}), "/cpu/model", "A");
  const Report other = on_machine(run_of({ddp(base_times)}), "/cpu/model", "B");
  const std::string said = refusal([&] { compared(base, other); });
  EXPECT_NE(said.find("cpu.model is A in the base run, B in the new one"), std::string::npos) << said;
  EXPECT_NE(said.find("--allow-env-diff"), std::string::npos);
  for (const auto& [pointer, value] :
       std::vector<std::pair<const char*, Json>>{{"/cpu/usable", 4},
                                                 {"/cpu/governor", "powersave"},
                                                 {"/limits/cpus", 1.5},
                                                 {"/variables/OMP_NUM_THREADS", "4"},
                                                 {"/gpus", Json::array({{{"name", "H200"}}})},
                                                 {"/driver/nvidia", "580"}})
    EXPECT_NE(refusal([&] { compared(base, on_machine(base, pointer, value)); }), "not refused") << pointer;
  const Comparison allowed = compare(base, other, make_gate({}), true);
  EXPECT_EQ(allowed.judged.at(0).verdict, Verdict::same);
  EXPECT_EQ(allowed.differences.at(0).field, "cpu.model") << "let through, but said";
}

TEST(Compare, ADifferenceOfSoftwareIsSaidAndNotRefused) {
  const Report base = on_machine(run_of({ddp(base_times)}), "/cpu/model", "A");
  const Comparison result = compared(base, on_machine(base, "/versions/torch", "2.15.0"));
  ASSERT_EQ(result.differences.size(), 1u);
  EXPECT_EQ(compare_notes(result).at(0), "versions.torch: 2.11.0 -> 2.15.0");
}

TEST(Compare, RatiosWithinOneRunHoldAcrossMachines) {
  const Report base = on_machine(run_of({cpu(base_baseline), ddp(base_times)}), "/cpu/model", "A");
  const Report other = on_machine(run_of({cpu({250, 255, 245, 250}), ddp({500, 505, 495, 500})}), "/cpu/model", "B");
  EXPECT_EQ(compared(base, other, "ratio-to-baseline:10%").judged.at(0).verdict, Verdict::same);
  EXPECT_EQ(compared(base, other, "efficiency:5,ratio-to-baseline:10%").judged.size(), 2u);
  EXPECT_NE(refusal([&] { compared(base, other, "ratio-to-baseline:10%,median:5%"); }), "not refused");
}

TEST(Compare, ARatioNeedsTheBaselinesRowInBothRuns) {
  const Comparison result = compared(run_of({cpu(base_baseline), ddp(base_times)}),
                                     run_of({cpu(new_baseline), ddp(base_times)}), "ratio-to-baseline:20%");
  EXPECT_EQ(result.judged.size(), 1u);
  EXPECT_NE(refusal([] {
              compared(run_of({ddp(base_times)}), run_of({cpu(new_baseline), ddp(base_times)}), "ratio-to-baseline:5%");
            }).find("ratio-to-baseline needs the baseline's row and a measured launch in the base run"),
            std::string::npos);
}

TEST(Compare, UnlikeConfigurationsOfACaseAreRefusedWithTheFieldNamed) {
  CaseRecord threads = ddp(base_times), files = ddp(base_times);
  threads.spec.threads = 4;
  files.spec.data_dir = "/data";
  const Report base = run_of({ddp(base_times)});
  EXPECT_NE(refusal([&] { compared(base, run_of({threads})); }).find("threads is 1 in the base run, 4 in the new one"),
            std::string::npos);
  EXPECT_NE(refusal([&] { compared(base, run_of({files})); }).find("data is drawn digits in the base run, files"),
            std::string::npos);
  EXPECT_EQ(compare(base, run_of({threads}), make_gate({}), true).judged.size(), 1u);
}

TEST(Rules, AreReadWithTheirUnits) {
  EXPECT_NEAR(parse_rule("median:5%").limit, std::log(1.05), 1e-15);
  EXPECT_NEAR(parse_rule("throughput:5%").limit, -std::log(0.95), 1e-15);
  EXPECT_EQ(parse_rule("efficiency:2.5").limit, 2.5);
  EXPECT_EQ(make_gate({"median:5%,p99:10%", "peak-memory:3%"}).rules.size(), 3u);
  EXPECT_EQ(make_gate({}).rules.at(0).text, "median:5%");
}

TEST(Rules, WhatCannotBeReadIsRefusedWithTheWayOut) {
  for (const char* wrong :
       {"", "median", "median:", "median:5", "median:%", "median:-5%", "median:0%", "median:nan%", "median:100%",
        "median:5%%", "median: 5%", "efficiency:3%", "mean:5%", "Median:5%", ":5%", "median:inf%", "median:1e9%"})
    EXPECT_THROW(parse_rule(wrong), UsageError) << wrong;
  EXPECT_NE(refusal([] {
              parse_rule("speed:5%");
            }).find("median, p99, throughput, efficiency, peak-memory, ratio-to-baseline"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_rule("efficiency:3%"); }).find("efficiency:3 (percentage points)"), std::string::npos);
}

class GateFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "dpbench-gate-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    here_ = name;
  }
  void TearDown() override { fs::remove_all(here_); }
  Gate read(const std::string& text) {
    std::ofstream(here_ / "gate.json") << text;
    return read_gate(here_ / "gate.json");
  }
  fs::path here_;
};

TEST_F(GateFile, GivesEachCaseTheRulesOfTheFirstPatternThatMatches) {
  const Gate gate = read(R"({"fail_on": ["median:5%"], "cases": [
      {"match": "ddp/convnet/*", "fail_on": []},
      {"match": "ddp/*", "fail_on": ["median:8%", "p99:20%"]}]})");
  EXPECT_EQ(gate.rules_for("cpu/convnet/cpu:1").size(), 1u);
  EXPECT_EQ(gate.rules_for("ddp/mnist-mlp/cpu:2/shm/weak/b64/f32").size(), 2u);
  EXPECT_TRUE(gate.rules_for("ddp/convnet/cpu:2").empty());
}

TEST_F(GateFile, WhatCannotBeReadIsRefused) {
  for (const char* wrong :
       {"", "[]", "{}", R"({"fail_on": "median:5%"})", R"({"fail_on": ["median"]})", R"({"fail-on": []})",
        R"({"fail_on": [], "cases": [{"match": "x"}]})", R"({"fail_on": [], "cases": [{"fail_on": []}]})",
        R"({"fail_on": [], "cases": [{"match": "x", "fail_on": [], "limit": 3}]})", R"({"fail_on": [5]})"})
    EXPECT_THROW(read(wrong), UsageError) << wrong;
  EXPECT_THROW(read_gate(here_ / "absent.json"), UsageError);
}

TEST_F(GateFile, AGateThatRulesNothingIsNotGreen) {
  const Report run = run_of({ddp(base_times)});
  EXPECT_EQ(refusal([&] { compare(run, run, read(R"({"fail_on": []})")); }),
            "nothing was judged: the gate has no rule for a case of both runs");
}

TEST_F(GateFile, APatternThatFitsNoCaseIsRefused) {
  const Report run = run_of({ddp(base_times)});
  const std::string text = R"({"fail_on": ["median:5%"], "cases": [{"match": "ddp/mnist-mpl/*", "fail_on": []}]})";
  EXPECT_NE(refusal([&] { compare(run, run, read(text)); }).find(R"("ddp/mnist-mpl/*" fits no case)"),
            std::string::npos);
  const Report wider = run_of({ddp(base_times), measured("ddp", 3, "weak", 64, 1000)});
  const std::string added = R"({"fail_on": ["median:5%"], "cases": [{"match": "*/cpu:3/*", "fail_on": []}]})";
  EXPECT_EQ(refusal([&] { compare(run, wider, read(added)); }), "not refused") << "a case of one run alone is no mistake";
}

TEST_F(GateFile, APatternThatOthersPrecedeIsTold) {
  const Report run = run_of({ddp(base_times)});
  const Gate gate = read(R"({"fail_on": [], "cases": [{"match": "ddp/*", "fail_on": ["median:5%"]},
                                                      {"match": "ddp/mnist-mlp/*", "fail_on": []}]})");
  const Comparison result = compare(run, run, gate);
  EXPECT_EQ(result.unused, (std::vector<std::string>{"ddp/mnist-mlp/*"}));
  EXPECT_NE(compare_notes(result).at(0).find("ddp/mnist-mlp/*"), std::string::npos);
}

Comparison one_of_each() {
  CaseRecord wrong = measured("dp", 2, "weak", 64, 10000);
  wrong.checks = {{.name = "output-shape", .status = "failed", .detail = "100%\nwrong"}};
  return compared(run_of({ddp(base_times), cpu({500, 600, 700, 800}), measured("gone", 1, "weak", 64, 1)}, "base"),
                  run_of({ddp(slower_times), cpu({500, 600, 700, 800}), wrong}));
}

TEST(Output, HasARowForEveryCase) {
  const auto rows = compare_rows(one_of_each());
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[1], (std::vector<std::string>{"ddp/mnist-mlp/cpu:2/shm/weak/b64/f32", "median:5%", "0.0009999 ms",
                                               "0.001075 ms", "+7.5 %", "[+5.2, +9.9]", "SLOWER", ""}));
  EXPECT_EQ(rows[2][6], "unclear");
  EXPECT_EQ(rows[2][7], "the interval holds the limit: more launches, or less noise");
  EXPECT_EQ(rows[3][6], "FAILED");
  EXPECT_EQ(rows[4][6], "gone");
  for (const auto& row : rows) EXPECT_EQ(row.size(), compare_columns_right().size());
}

TEST(Output, SumsUpInOneLine) {
  EXPECT_EQ(compare_summary(one_of_each()), "1 broken, 1 worse, 1 unclear, 1 gone. Gate: FAILED");
  const Report run = run_of({ddp(base_times)});
  EXPECT_EQ(compare_summary(compared(run, run)), "1 same. Gate: passed");
}

TEST(Output, IsOneJsonDocument) {
  const Json json = parse_json(compare_json(one_of_each()).dump(), "output");
  EXPECT_EQ(json["gate"], "failed");
  EXPECT_EQ(json["judged"][0]["verdict"], "SLOWER");
  EXPECT_EQ(json["judged"][0]["failed"], true);
  EXPECT_NEAR(json["judged"][0]["change_percent"].get<double>(), 7.504939, 1e-5);  // exp(0.0723665905) - 1
  EXPECT_EQ(json["broken"][0]["case"], "dp/mnist-mlp/cpu:2/weak/b64/f32");
  EXPECT_EQ(json["gone"].size(), 1u);
}

TEST(Output, AThroughputThatFallsIsShownAsAFall) {
  const Comparison result =
      compared(run_of({ddp({1000, 1001, 999, 1000})}), run_of({ddp({2000, 2001, 1999, 2000})}), "throughput:5%");
  const auto row = compare_rows(result).at(1);
  EXPECT_EQ(row[4], "-50.0 %");
  EXPECT_EQ(row[5], "[-50.1, -49.9]");
}

TEST(Output, AnnotatesForGithubWithItsOwnCharactersEscaped) {
  const auto lines = github_annotations(one_of_each());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(
      lines[0],
      "::error title=dpbench SLOWER::ddp/mnist-mlp/cpu:2/shm/weak/b64/f32 +7.5 %25 [+5.2, +9.9], rule median:5%25");
  EXPECT_TRUE(lines[1].starts_with("::warning title=dpbench unclear::cpu/"));
  EXPECT_NE(lines[2].find("100%25%0Awrong"), std::string::npos) << lines[2];
}

// Runs as they come: each launch has its own level. How often does the gate cry wolf over 20 cases, how often does it
// see a real slowdown? The bounds hold for the fixed seeds here and leave room for the simulation's own error.
struct Power {
  double noise, limit;
  int launches;
  double slower_by;
  double least, most;  // share of experiments (of 20 cases each without a slowdown, of one with) that end in SLOWER
};

double share_slower(const Power& p, std::mt19937_64& generator) {
  std::normal_distribution<double> normal;
  const auto launches = [&](double level) {
    std::vector<double> logs(static_cast<size_t>(p.launches));
    for (double& log : logs) log = level + p.noise * normal(generator);
    return moments(logs);
  };
  const int cases = p.slower_by > 0 ? 1 : 20, experiments = 2000;
  int alarms = 0;
  for (int experiment = 0; experiment < experiments; ++experiment) {
    bool slower = false;
    for (int i = 0; i < cases; ++i) {
      const Moments base = launches(0), now = launches(std::log1p(p.slower_by));
      const Term terms[] = {{1, base}, {1, now}};
      slower |=
          verdict_of(welch_change(now.mean - base.mean, terms), std::log1p(p.limit), p.launches) == Verdict::slower;
    }
    alarms += slower;
  }
  return static_cast<double>(alarms) / experiments;
}

TEST(Power, TheGateRarelyCriesWolfAndSeesWhatItShould) {
  std::mt19937_64 generator(3);
  const Power table[] = {
      {0.02, 0.05, 5, 0.00, 0.00, 0.005}, {0.02, 0.05, 5, 0.06, 0.70, 0.84}, {0.02, 0.05, 5, 0.10, 0.99, 1.00},
      {0.02, 0.03, 5, 0.00, 0.09, 0.18},  {0.02, 0.03, 5, 0.06, 0.93, 1.00}, {0.01, 0.05, 5, 0.06, 0.88, 1.00},
      {0.01, 0.03, 5, 0.00, 0.00, 0.005}, {0.02, 0.05, 3, 0.50, 0.00, 0.00}, {0.05, 0.05, 10, 0.00, 0.00, 0.30}};
  std::printf("noise  limit  launches  slower by  called SLOWER\n");
  for (const Power& p : table) {
    const double share = share_slower(p, generator);
    std::printf("%4.0f %%  %4.0f %%  %8d  %7.0f %%  %11.1f %%\n", 100 * p.noise, 100 * p.limit, p.launches,
                100 * p.slower_by, 100 * share);
    EXPECT_GE(share, p.least) << p.noise << " " << p.limit << " " << p.slower_by;
    EXPECT_LE(share, p.most) << p.noise << " " << p.limit << " " << p.slower_by;
  }
}

}  // namespace
}  // namespace dpbench
