// LaunchLoop: order of cases, retries, added launches for noisy cases, and interruption. A fake runner replaces the
// worker processes, so nothing is started or timed.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "harness/front/launch/exit_code.h"
#include "harness/front/run/launch_loop.h"
#include "harness/front/run/progress/event_lines.h"
#include "harness/front/run/schedule.h"
#include "harness/front/text/text.h"
#include "tests/unit/front/toy_case.h"

namespace dpbench {
namespace {

using Kind = CaseOutcome::Kind;

std::string numbered(int i) { return std::string(1, static_cast<char>('a' + i)); }

CaseOutcome good(int64_t ns = 1000000) {
  RankRecord record;
  record.steps_per_sample = 1;
  record.samples_ns = {ns, ns, ns};
  return {.kind = Kind::ran, .ranks = {record}};
}

CaseOutcome bad(const std::string& reason = "rank 1 was ended by signal 9") {
  return {.kind = Kind::failed, .reason = reason};
}

class FakeRunner : public CaseRunner {
 public:
  CaseOutcome run(const CaseSpec& spec, const Json& command) override {
    calls.push_back(spec.id);
    commands.push_back(command);
    return answer(spec, static_cast<int>(calls.size()));
  }
  std::vector<std::string> end_group() override { return ++groups, complaints; }
  std::vector<std::string> end_launch() override { return ++launches, std::vector<std::string>(); }
  int pending_signal() override { return signal; }

  std::function<CaseOutcome(const CaseSpec&, int)> answer = [](const CaseSpec&, int) { return good(); };
  std::vector<std::string> calls, complaints;
  std::vector<Json> commands;
  int groups = 0, launches = 0, signal = 0;
};

class LaunchLoopTest : public testing::Test {
 protected:
  LaunchLoopTest() {
    options_.launches = 2;
    for (const auto& spec : {spec_of("cpu"), spec_of("dp"), spec_of("ddp", 2)})
      report_.cases.emplace_back().spec = spec;
  }

  // Makes the step times of dp noisier than --max-noise allows and sets --max-time to 50 ms.
  void make_dp_noisy() {
    options_.max_noise_percent = 1;
    options_.sampling.max_time_s = 0.05;
    runner_.answer = [](const CaseSpec& spec, int) {
      CaseOutcome outcome = good();
      if (spec.strategy == "dp") outcome.ranks[0].samples_ns = {1000000, 2000000, 3000000};
      return outcome;
    };
  }

  LoopEnding run() {
    ProgressLine progress(style_, false, static_cast<int>(report_.cases.size()), 0, options_.launches);
    if (listener_) progress.tell(*listener_);
    const auto command = [](int launch, const CaseSpec& spec) -> Json {
      return {{"launch", launch}, {"made_for", spec.id}};
    };
    LaunchLoop loop(options_, report_, report_.cases.size(), runner_, progress, command, [&] { ++saves_; }, load_, 2);
    loop.choose_by(choose_);
    return loop.run();
  }

  CaseRecord& record(const std::string& strategy) {
    return *std::find_if(report_.cases.begin(), report_.cases.end(),
                         [&](const CaseRecord& one) { return one.spec.strategy == strategy; });
  }

  MeasuringOptions options_;
  Report report_;
  FakeRunner runner_;
  ReadCpuTimes load_;
  LaunchLoop::Choose choose_;
  int saves_ = 0;
  ProgressStyle style_ = ProgressStyle::none;
  ProgressListener* listener_ = nullptr;
};

TEST(LaunchOrder, HasEveryCaseOnceAndGroupsCasesWithEquallyManyProcesses) {
  std::vector<CaseSpec> cases;
  std::vector<size_t> which;
  for (int i = 0; i < 12; ++i) cases.push_back(spec_of(numbered(i), 1 + i % 3)), which.push_back(i);
  const auto order = launch_order(cases, which, 0, 1);
  ASSERT_EQ(order.size(), 3u);
  std::set<size_t> seen;
  for (const auto& group : order)
    for (const size_t index : group) {
      EXPECT_TRUE(seen.insert(index).second);
      EXPECT_EQ(cases[index].processes, cases[group[0]].processes);
    }
  EXPECT_EQ(seen.size(), 12u);
}

TEST(LaunchOrder, CasesMeasuredAgainstTheSameReferenceRunOneAfterAnother) {
  std::vector<CaseSpec> cases;
  std::vector<size_t> which;
  for (int i = 0; i < 24; ++i) {
    cases.push_back(spec_of(numbered(i)));
    cases.back().workload = "toy" + std::to_string(i % 4);
    which.push_back(static_cast<size_t>(i));
  }
  std::set<std::string> firsts;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto order = launch_order(cases, which, 0, seed);
    ASSERT_EQ(order.size(), 1u);
    int changes = 0;
    for (size_t i = 1; i < order[0].size(); ++i)
      changes += cases[order[0][i]].workload != cases[order[0][i - 1]].workload;
    EXPECT_EQ(changes, 3);
    firsts.insert(cases[order[0][0]].workload);
  }
  EXPECT_GT(firsts.size(), 1u) << "their order is random";
}

TEST(LaunchOrder, DependsOnTheLaunchNumberAndTheSeedAndIsOtherwiseFixed) {
  std::vector<CaseSpec> cases;
  std::vector<size_t> which;
  for (int i = 0; i < 12; ++i) cases.push_back(spec_of(numbered(i))), which.push_back(i);
  EXPECT_EQ(launch_order(cases, which, 0, 1), launch_order(cases, which, 0, 1));
  EXPECT_NE(launch_order(cases, which, 0, 1), launch_order(cases, which, 1, 1));
  EXPECT_NE(launch_order(cases, which, 0, 1), launch_order(cases, which, 0, 2));
}

TEST_F(LaunchLoopTest, RunsEveryCaseInEveryLaunchWithFreshProcesses) {
  run();
  EXPECT_EQ(runner_.calls.size(), 6u);
  EXPECT_EQ(runner_.groups, 4);
  EXPECT_EQ(runner_.launches, 2);
  EXPECT_EQ(report_.status, RunStatus::complete);
  EXPECT_EQ(saves_, 6);
  for (const auto& one : report_.cases) {
    EXPECT_EQ(one.status, CaseStatus::ok);
    ASSERT_EQ(one.launches.size(), 2u);
    EXPECT_EQ(one.launches[1].index, 1);
    EXPECT_TRUE(one.step_time_ns);
  }
}

TEST_F(LaunchLoopTest, RunsInEachLaunchTheCasesThatACallbackChoosesUntilItChoosesNone) {
  std::vector<bool> measured;  // for each call of choose_: true if dp has a step time by then
  choose_ = [&](int launch, const std::vector<size_t>& unfinished) -> std::vector<size_t> {
    measured.push_back(record("dp").ok() && record("dp").step_time_ns);
    if (launch == 0) return unfinished;
    return launch < 4 ? std::vector<size_t>{1} : std::vector<size_t>{};
  };
  run();
  EXPECT_EQ(record("dp").launches.size(), 4u);
  EXPECT_EQ(record("cpu").launches.size(), 1u);
  EXPECT_EQ(measured, (std::vector<bool>{false, true, true, true, true}));
  EXPECT_EQ(report_.status, RunStatus::complete);
}

TEST_F(LaunchLoopTest, SendsWorkersACommandThatDependsOnTheLaunchAndTheCase) {
  run();
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(runner_.commands[i]["launch"], i < 3 ? 0 : 1);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(runner_.commands[i]["made_for"], runner_.calls[i]);
}

TEST_F(LaunchLoopTest, DoesNotCountALaunchInWhichACaseWasCheckedButNotTimed) {
  runner_.answer = [](const CaseSpec&, int) {
    return CaseOutcome{.checks = {{.name = "buffers", .status = CheckStatus::passed}}};
  };
  options_.launches = 1;
  run();
  EXPECT_EQ(record("cpu").status, CaseStatus::ok);
  EXPECT_TRUE(record("cpu").launches.empty());
}

TEST_F(LaunchLoopTest, DoesNotRerunAFailedCaseAndContinuesWithTheOthers) {
  runner_.answer = [](const CaseSpec& spec, int) { return spec.strategy == "dp" ? bad() : good(); };
  run();
  EXPECT_EQ(std::count(runner_.calls.begin(), runner_.calls.end(), spec_of("dp").id), 1);
  EXPECT_EQ(record("dp").status, CaseStatus::failed);
  EXPECT_EQ(record("dp").reason, bad().reason);
  EXPECT_EQ(record("ddp").status, CaseStatus::ok);
  EXPECT_EQ(report_.status, RunStatus::complete);
  EXPECT_EQ(exit_code(ending_of(report_)), 3);
}

TEST_F(LaunchLoopTest, ReportsASuccessfulRetryAsAWarning) {
  options_.retries = 1;
  options_.launches = 1;
  int failures = 0;
  runner_.answer = [&](const CaseSpec& spec, int) {
    return spec.strategy == "ddp" && failures++ == 0 ? bad() : good();
  };
  run();
  EXPECT_EQ(record("ddp").status, CaseStatus::ok);
  ASSERT_EQ(record("ddp").warnings.size(), 2u);
  EXPECT_NE(record("ddp").warnings[0].find("signal 9"), std::string::npos);
  EXPECT_NE(record("ddp").warnings[1].find("attempt 2"), std::string::npos);
  EXPECT_TRUE(record("cpu").warnings.empty());
}

TEST_F(LaunchLoopTest, ACaseThatFailsInEveryRetryFails) {
  options_.retries = 2;
  runner_.answer = [](const CaseSpec&, int) { return bad(); };
  run();
  EXPECT_EQ(runner_.calls.size(), 9u);
  EXPECT_EQ(record("cpu").status, CaseStatus::failed);
}

TEST_F(LaunchLoopTest, DoesNotTimeACaseWithAFailedCheckAgain) {
  runner_.answer = [](const CaseSpec& spec, int) {
    CaseOutcome outcome = good();
    if (spec.strategy == "dp") outcome.checks = {{.name = "gradient-vs-baseline", .status = CheckStatus::failed}};
    return outcome;
  };
  run();
  EXPECT_EQ(record("dp").status, CaseStatus::wrong);
  EXPECT_EQ(record("dp").launches.size(), 1u);
  EXPECT_EQ(exit_code(ending_of(report_)), 1);
}

TEST_F(LaunchLoopTest, RecordsInTheReportTheOrderInWhichCasesWereLaunched) {
  run();
  std::map<int, std::string> order;
  for (const CaseRecord& one : report_.cases)
    for (const LaunchRecord& launch : one.launches) order[launch.order.value()] = one.spec.id;
  ASSERT_EQ(order.size(), runner_.calls.size());
  for (const auto& [position, id] : order) EXPECT_EQ(id, runner_.calls.at(static_cast<size_t>(position)));
}

TEST_F(LaunchLoopTest, JsonlOutputHasAStartAndAnEndPerCaseAndAnEventPerLaunch) {
  std::map<std::string, std::vector<std::string>> events;  // events by case id; "": events without a case
  Json last;
  EventLines lines(report_, [&](const std::string& text) {
    const Json json = parse_json(text, "line");
    events[json.value("case", "")].push_back(json["event"]);
    if (json["event"] == "case-end" && json["result"]["strategy"] == "ddp") last = json;
    return true;
  });
  listener_ = &lines;
  runner_.answer = [](const CaseSpec& spec, int) { return spec.strategy == "dp" ? bad() : good(); };
  run();
  const auto told = [&](const char* strategy) { return events[record(strategy).spec.id]; };
  EXPECT_EQ(told("dp"), (std::vector<std::string>{"case-start", "launch-end", "case-end"}));
  EXPECT_EQ(told("ddp"), (std::vector<std::string>{"case-start", "launch-end", "launch-end", "case-end"}));
  EXPECT_EQ(events[""], std::vector<std::string>(events[""].size(), "problem"));
  EXPECT_EQ(last["launches"], 2);
  EXPECT_EQ(last["result"]["stats"]["step_time_ns"]["median"], 1e6);
  EXPECT_FALSE(last["result"].contains("launches")) << "run.json has the records of the launches";
}

TEST(JsonlOutput, AWriteErrorOfStdoutIsReported) {
  const Report report;
  EventLines lines(report, [](const std::string&) { return false; });
  EXPECT_TRUE(lines.printed());
  lines.problem("disk");
  EXPECT_FALSE(lines.printed());
}

TEST_F(LaunchLoopTest, AnInterruptionEndsTheRunAndKeepsFinishedLaunches) {
  runner_.answer = [](const CaseSpec&, int call) {
    return call == 5 ? CaseOutcome{.kind = Kind::interrupted, .signal = 15} : good();
  };
  EXPECT_EQ(run().signal, 15);
  EXPECT_EQ(runner_.calls.size(), 5u);
  EXPECT_EQ(report_.status, RunStatus::interrupted);
  size_t launches = 0;
  for (const auto& one : report_.cases) launches += one.launches.size();
  EXPECT_EQ(launches, 4u);
}

TEST_F(LaunchLoopTest, ASignalBeforeTheFirstCaseEndsTheRun) {
  runner_.signal = 2;
  EXPECT_EQ(run().signal, 2);
  EXPECT_TRUE(runner_.calls.empty());
}

TEST_F(LaunchLoopTest, AUsageErrorBeforeTheRanksAreReadyStopsTheRun) {
  runner_.answer = [](const CaseSpec&, int) {
    return CaseOutcome{.kind = Kind::usage, .reason = "images: magic number 7", .never_started = true};
  };
  EXPECT_EQ(run().usage, "images: magic number 7");
  EXPECT_EQ(runner_.calls.size(), 1u);
}

TEST_F(LaunchLoopTest, ANamedStrategyThatRefusesAllItsCasesIsAUsageError) {
  runner_.answer = [](const CaseSpec& spec, int) {
    return spec.strategy == "dp" ? CaseOutcome{.kind = Kind::usage, .reason = "dp.link=x is unknown"} : good();
  };
  const std::vector<CaseRecord> fresh = report_.cases;
  const auto run_with = [&](const std::vector<std::string>& strategies,
                            const std::map<std::string, std::string>& params) {
    report_.cases = fresh;
    options_.what.strategies = strategies;
    for (CaseRecord& one : report_.cases)
      if (one.spec.strategy == "dp") one.spec.params = params;
    return run().usage;
  };
  EXPECT_EQ(run_with({"cpu", "dp"}, {}), "dp.link=x is unknown");
  EXPECT_EQ(record("dp").status, CaseStatus::failed);
  EXPECT_EQ(record("cpu").status, CaseStatus::ok);
  EXPECT_EQ(run_with({}, {{"link", "x"}}), "dp.link=x is unknown");
  EXPECT_EQ(record("dp").status, CaseStatus::failed);
  EXPECT_EQ(run_with({}, {}), "");
  EXPECT_EQ(record("dp").status, CaseStatus::skipped);
}

TEST_F(LaunchLoopTest, AStrategyThatRefusesOneWorkloadSkipsItAndRunsTheOthers) {
  report_.cases.emplace_back().spec = spec_of("dp");
  report_.cases.back().spec.workload = "convnet";
  report_.cases.back().spec.id = case_id(report_.cases.back().spec);
  runner_.answer = [](const CaseSpec& spec, int) {
    return spec.strategy == "dp" && spec.workload == "toy"
               ? CaseOutcome{.kind = Kind::usage, .reason = "dp needs a convolution"}
               : good();
  };
  EXPECT_EQ(run().usage, "");
  EXPECT_EQ(record("dp").status, CaseStatus::skipped);
  EXPECT_EQ(record("dp").reason, "dp needs a convolution");
  EXPECT_EQ(record("dp").refusal, Refusal::scenario);
  EXPECT_EQ(record("cpu").refusal, Refusal::none);
  EXPECT_EQ(report_.cases.back().status, CaseStatus::ok);
}

TEST_F(LaunchLoopTest, SkipsACaseIfItsWorkersReportThatTheMachineCannotRunIt) {
  runner_.answer = [](const CaseSpec&, int) { return CaseOutcome{.kind = Kind::unavailable, .reason = "no GPU 3"}; };
  run();
  EXPECT_EQ(record("cpu").status, CaseStatus::skipped);
  EXPECT_EQ(exit_code(ending_of(report_)), 77);
}

TEST_F(LaunchLoopTest, GivesUpAProcessGroupThatFailsToStartTwice) {
  report_.cases.clear();
  for (int i = 0; i < 6; ++i) report_.cases.emplace_back().spec = spec_of(numbered(i));
  runner_.answer = [](const CaseSpec&, int) {
    CaseOutcome outcome = bad("0 of 1 ranks joined");
    outcome.never_started = true;
    return outcome;
  };
  run();
  EXPECT_EQ(runner_.calls.size(), 2u);
  for (const auto& one : report_.cases) EXPECT_EQ(one.reason, "0 of 1 ranks joined");
}

TEST_F(LaunchLoopTest, AddsLaunchesToNoisyCasesUntilMaxTime) {
  make_dp_noisy();
  run();
  EXPECT_EQ(record("cpu").launches.size(), 2u);
  EXPECT_GT(record("dp").launches.size(), 4u);
  EXPECT_LT(record("dp").launches.size(), 20u);
  ASSERT_EQ(record("dp").warnings.size(), 1u);
  EXPECT_NE(record("dp").warnings[0].find("--max-time"), std::string::npos);
}

TEST_F(LaunchLoopTest, PlainProgressPrintsOneLinePerCaseAfterItsLastLaunch) {
  style_ = ProgressStyle::plain;
  options_.launches = 3;
  runner_.answer = [](const CaseSpec& spec, int) { return spec.strategy == "dp" ? bad() : good(); };
  testing::internal::CaptureStderr();
  run();
  const auto lines = split(testing::internal::GetCapturedStderr(), '\n');
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with("1/3 · " + spec_of("dp").id + " · failed")) << lines[0];
  EXPECT_NE(lines[0].find(bad().reason), std::string::npos) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("2/3 · ")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("3/3 · ")) << lines[2];
}

TEST_F(LaunchLoopTest, PlainProgressPrintsOneLineForACaseWithLaunchesAddedForNoise) {
  style_ = ProgressStyle::plain;
  make_dp_noisy();
  testing::internal::CaptureStderr();
  run();
  const auto lines = split(testing::internal::GetCapturedStderr(), '\n');
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_GT(record("dp").launches.size(), 4u);
  EXPECT_TRUE(lines[2].starts_with("3/3 · " + spec_of("dp").id)) << lines[2];
}

TEST_F(LaunchLoopTest, WarnsWhenOneTimedBlockIsTooFewToMeasureNoise) {
  options_.launches = 1;
  options_.max_noise_percent = 1;
  options_.sampling.max_time_s = 0.0005;
  runner_.answer = [](const CaseSpec&, int) {
    CaseOutcome outcome = good();
    outcome.ranks[0].samples_ns = {1000000};
    return outcome;
  };
  run();
  ASSERT_EQ(record("cpu").warnings.size(), 1u);
  EXPECT_NE(record("cpu").warnings[0].find("--max-noise"), std::string::npos);
}

// Each launch (start of a case's processes) takes one second. Other programs keep a core busy during the second launch
// of dp only.
TEST_F(LaunchLoopTest, RecordsTheLoadByOtherProgramsInEachLaunch) {
  CpuTimes now;
  load_ = [&] { return now; };
  runner_.answer = [&](const CaseSpec& spec, int call) {
    now.wall_s += 1, now.busy_s += 1, now.ours_s += 1;
    if (spec.strategy == "dp" && call > 3) now.busy_s += 1;
    return good();
  };
  run();
  EXPECT_DOUBLE_EQ(record("dp").launches.at(0).others->programs, 0);
  EXPECT_DOUBLE_EQ(record("dp").launches.at(1).others->programs, 1);
  EXPECT_DOUBLE_EQ(record("cpu").launches.at(1).others->programs, 0);
  EXPECT_EQ(record("dp").status, CaseStatus::ok) << "its one replica had its core";
}

TEST_F(LaunchLoopTest, ACaseWithMoreReplicasThanCoresIsDisturbedIfAnotherProgramRuns) {
  for (CaseRecord& one : report_.cases) one.spec.world = 4;
  CpuTimes now;
  load_ = [&] { return now; };
  runner_.answer = [&](const CaseSpec& spec, int) {
    now.wall_s += 1, now.busy_s += spec.strategy == "dp" ? 2 : 1, now.ours_s += 1;
    return good();
  };
  run();
  EXPECT_EQ(record("dp").status, CaseStatus::disturbed);
  EXPECT_FALSE(record("dp").step_time_ns);
  EXPECT_EQ(record("cpu").status, CaseStatus::ok);
}

TEST_F(LaunchLoopTest, AFailedAuditInADisturbedLaunchIsNotForgottenByRepeatingTheLaunch) {
  for (CaseRecord& one : report_.cases) one.spec.world = 4;
  CpuTimes now;
  load_ = [&] { return now; };
  int launches = 0;
  runner_.answer = [&](const CaseSpec& spec, int) {
    now.wall_s += 1, now.busy_s += spec.strategy == "dp" ? 2 : 1, now.ours_s += 1;
    CaseOutcome outcome = good();
    if (spec.strategy == "dp" && launches++ == 0) outcome.checks = {{.name = "audit", .status = CheckStatus::failed}};
    return outcome;
  };
  run();
  EXPECT_EQ(record("dp").status, CaseStatus::wrong);
  EXPECT_EQ(record("cpu").status, CaseStatus::ok);
}

TEST_F(LaunchLoopTest, WarnsWhenAWorkerEndsWithAnErrorAfterItsLastCase) {
  runner_.complaints = {"rank 1 ended with exit code 5 after its last case"};
  run();
  size_t warnings = 0;
  for (const auto& one : report_.cases) warnings += one.warnings.size();
  EXPECT_EQ(warnings, 4u);
}

TEST(ExitCode, IsThatOfARunsMostSevereOutcome) {
  const std::vector<std::pair<Ending, int>> table = {
      {{.usage = true, .unsaved = true, .failed = true, .wrong = true, .inconclusive = true, .unavailable = true}, 2},
      {{.unsaved = true, .failed = true, .wrong = true, .inconclusive = true, .unavailable = true}, 5},
      {{.failed = true, .wrong = true, .inconclusive = true, .unavailable = true}, 3},
      {{.wrong = true, .inconclusive = true, .unavailable = true}, 1},
      {{.inconclusive = true, .unavailable = true}, 4},
      {{.unavailable = true}, 77},
      {{}, 0},
      {{.usage = true, .signal = 2}, 130}};
  for (const auto& [ending, code] : table) EXPECT_EQ(exit_code(ending), code);
}

TEST(ExitCode, IsZeroWhenSomeCasesRanAndOthersWereSkipped) {
  Report report;
  report.cases.resize(2);
  report.cases[0].status = CaseStatus::skipped;
  report.cases[1].status = CaseStatus::ok;
  EXPECT_EQ(exit_code(ending_of(report)), 0);
}

}  // namespace
}  // namespace dpbench
