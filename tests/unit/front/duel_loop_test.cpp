// DuelLoop: a pair (a timed block of steps of each of two builds) is measured again if a rank waited for a core in one
// of its blocks, unless other programs are known to have used hardly any core. At the end of each launch,
// both builds audit its last steps, or decide by chance whether to. Fake runners replace the worker processes, so
// nothing is started or timed.
#include "harness/front/run/duel/duel_loop.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/front/toy_case.h"

namespace dpbench {
namespace {

// A fake build: each block has 10 steps and takes 1 ms. In each block the rank waits `queue_ns` for a core. The end of
// a launch is answered with `audit`.
class FakeBuild : public CaseRunner {
 public:
  CaseOutcome run(const CaseSpec&, const Json& command) override {
    RankRecord rank;
    rank.steps_per_sample = 10;
    if (command.at("do") == "end") {
      EXPECT_FALSE(command.at("profile").get<bool>());
      always_audited.push_back(command.at("last_steps"));
      return {.kind = CaseOutcome::Kind::ran, .ranks = {rank}, .checks = {audit}};
    }
    ++blocks;
    rank.samples_ns = {1'000'000};
    rank.cpu_ns = {0};
    rank.queue_ns = {queue_ns};
    return {.kind = CaseOutcome::Kind::ran, .ranks = {rank}};
  }
  std::vector<std::string> end_group() override { return {}; }
  int pending_signal() override { return 0; }

  int64_t queue_ns = 0;
  int blocks = 0;
  std::vector<bool> always_audited;  // for each end of a launch
  CheckRow audit{.name = "audit", .error = 0.5};
};

// Returns a fake source of readings of the cores' busy times, 1 s apart. In each second, this program uses one core and
// other programs use `load` cores.
ReadCpuTimes times_with(double load) {
  return [=, seconds = 0.0]() mutable {
    seconds += 1;
    return std::optional(CpuTimes{.wall_s = seconds, .busy_s = (1 + load) * seconds, .ours_s = seconds});
  };
}

class DuelLoopTest : public testing::Test {
 protected:
  DuelLoopTest() {
    options_.pairs_per_launch = 5;
    options_.check = false;
  }

  // Runs a duel of one case over 20 pairs and returns the case's record.
  DuelCase duel(ReadCpuTimes cpu_times = {}) {
    DuelReport report;
    report.rule.looks = {20};
    report.cases.push_back({.spec = spec_of("ddp", 2)});
    ProgressLine progress(ProgressStyle::none, false, 1, 0, 1);
    DuelLoop(options_, report, base_, now_, progress, [] {}, /*cores=*/2, std::move(cpu_times)).run();
    return report.cases[0];
  }

  // Runs a duel. Returns how many blocks of the new build were repeated: all its blocks minus one per pair, and minus
  // the first block, which does not count.
  int repeated(ReadCpuTimes cpu_times) {
    now_.blocks = 0;
    EXPECT_EQ(log_ratios(duel(std::move(cpu_times))).size(), 20u);
    return now_.blocks - 21;
  }

  DuelOptions options_;
  FakeBuild base_, now_;
};

TEST_F(DuelLoopTest, UndisturbedPairsAreMeasuredOnce) { EXPECT_EQ(repeated(times_with(0.5)), 0); }

TEST_F(DuelLoopTest, PairsThatWaitedForCoresWhileOtherProgramsWereIdleAreNotRepeated) {
  now_.queue_ns = 300'000;
  EXPECT_EQ(repeated(times_with(0.02)), 0);
}

TEST_F(DuelLoopTest, PairsThatLostTheirCoresAreRepeatedUpToALimitUnlessKeptOnRequest) {
  base_.queue_ns = 300'000;
  // the limit: each of 4 launches may repeat twice its number of pairs
  const int most = 4 * 2 * options_.pairs_per_launch;
  EXPECT_EQ(repeated(times_with(0.5)), most);
  EXPECT_EQ(repeated({}), most);
  options_.keep_disturbed = true;
  EXPECT_EQ(repeated(times_with(0.5)), 0);
}

TEST_F(DuelLoopTest, TheFirstAndTheLastLaunchAlwaysEndWithAnAuditOfBothBuilds) {
  const DuelCase record = duel();
  EXPECT_EQ(record.status, DuelStatus::ok);
  for (const FakeBuild* build : {&base_, &now_})
    EXPECT_EQ(build->always_audited, (std::vector<bool>{true, false, false, true})) << "a launch has 5 pairs";
  for (const auto& checks : {record.base_checks, record.new_checks}) {
    ASSERT_EQ(checks.size(), 1u) << "the audits of all launches are one row";
    EXPECT_EQ(checks[0].name, "audit");
  }
}

TEST_F(DuelLoopTest, AFailedAuditOfTheLastStepsLeavesNoVerdict) {
  now_.audit = {.name = "audit", .status = CheckStatus::failed, .detail = "step 80"};
  const DuelCase wrong = duel();
  EXPECT_EQ(wrong.status, DuelStatus::wrong);
  EXPECT_EQ(wrong.reason, "new: check audit failed: step 80, launch 0");
  std::swap(base_.audit, now_.audit);
  EXPECT_EQ(duel().status, DuelStatus::unmeasured);
  options_.pairs_per_launch = 20;  // the first launch has all pairs, so they are judged before its audit
  EXPECT_EQ(duel().status, DuelStatus::unmeasured);
}

TEST_F(DuelLoopTest, WithAuditOffNoLaunchIsAudited) {
  options_.sampling.audit = false;
  EXPECT_TRUE(duel().base_checks.empty());
  EXPECT_EQ(base_.always_audited.size() + now_.always_audited.size(), 0u);
}

}  // namespace
}  // namespace dpbench
