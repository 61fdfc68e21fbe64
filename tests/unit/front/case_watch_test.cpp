// CaseWatch follows one case on all ranks. The tests check which rank it blames, and with which reason, when the case
// fails.
#include <signal.h>

#include "harness/front/launch/case_watch.h"
#include "tests/support/contains.h"
#include "tests/unit/front/launch_parts.h"

namespace dpbench {
namespace {

using Kind = CaseOutcome::Kind;

constexpr double kTimeout = 2;
int killed_by(int signal) { return signal; }  // the status that waitpid gives for a process killed by this signal
int exited_with(int code) { return code << 8; }

std::string failed(int rank, const std::string& kind, const std::string& reason) {
  return Json({{"event", "failed"}, {"case", "c"}, {"rank", rank}, {"kind", kind}, {"reason", reason}}).dump();
}

std::string ran(int rank) {
  RankRecord record;
  record.rank = rank;
  return Json({{"event", "ran"}, {"case", "c"}, {"record", to_json(record)}, {"checks", Json::array()}}).dump();
}

CaseWatch watch_of(int ranks) { return CaseWatch("c", Event::ran, ranks, kTimeout, true, 0); }

TEST(CaseWatch, EndsACaseOnlyWhenEveryRankHasReportedItsResult) {
  CaseWatch watch = watch_of(2);
  EXPECT_FALSE(watch.verdict(0));
  watch.on_line(1, ran(1), 0.1);
  EXPECT_FALSE(watch.verdict(0.1));
  watch.on_line(0, ran(0), 0.2);
  const auto outcome = watch.verdict(0.2);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, Kind::ran);
  EXPECT_EQ(outcome->ranks.size(), 2u);
}

TEST(CaseWatch, ForwardsTheLinesThatRankZeroPrintsInTraining) {
  std::vector<std::string> heard;
  CaseWatch watch("c", Event::trained, 2, kTimeout, true, 0,
                  [&](const Json& event) { heard.push_back(event.at("text")); });
  const std::string line = Json({{"event", "line"}, {"case", "c"}, {"text", "  0: 1.5"}}).dump();
  watch.on_line(0, line, 0.1);
  EXPECT_EQ(heard, std::vector<std::string>{"  0: 1.5"});
  for (const int rank : {1, 0}) {
    Json answer = Json::parse(ran(rank));
    answer["event"] = "trained";
    answer["training"] = rank == 0 ? to_json(TrainingRecord{.epochs = 3}) : Json(nullptr);
    watch.on_line(rank, answer.dump(), 0.2);
  }
  const auto outcome = watch.verdict(0.2);
  ASSERT_TRUE(outcome && outcome->training);
  EXPECT_EQ(outcome->kind, Kind::ran);
  EXPECT_EQ(outcome->training->epochs, 3);
  EXPECT_EQ(outcome->ranks.size(), 2u);
}

TEST(CaseWatch, RejectsTrainingLinesFromRanksOtherThanZeroOrIfNoCallbackReceivesThem) {
  const std::string line = Json({{"event", "line"}, {"case", "c"}, {"text", "x"}}).dump();
  CaseWatch without_listener = watch_of(2);
  without_listener.on_line(0, line, 0.1);
  expect_contains(without_listener.verdict(0.5)->reason, {"rank 0", "'line'"});
  CaseWatch watch("c", Event::trained, 2, kTimeout, true, 0,
                  [](const Json&) { FAIL() << "only rank 0 may send lines"; });
  watch.on_line(1, line, 0.1);
  expect_contains(watch.verdict(0.5)->reason, {"rank 1", "'line'"});
}

TEST(CaseWatch, DropsMeasurementsWhenTheChecksBrokeTheProcessGroup) {
  CaseWatch watch("c", Event::ran, 1, 30, true, 0);
  Json answer = {{"event", "ran"}, {"case", "c"}, {"record", to_json(RankRecord{})}, {"group_over", true}};
  answer["checks"] = {to_json(CheckRow{.name = "run-completes", .status = CheckStatus::failed})};
  watch.on_line(0, answer.dump(), 1);
  const auto outcome = watch.verdict(1);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, Kind::ran);
  EXPECT_TRUE(outcome->group_over);
  EXPECT_TRUE(outcome->ranks.empty());
  EXPECT_EQ(outcome->checks.size(), 1u);
}

TEST(CaseWatch, DropsMeasurementsAndKeepsTheProcessGroupIfAWorkerReportsThatItTimedNothing) {
  CaseWatch watch("c", Event::ran, 1, 30, true, 0);
  Json answer = {
      {"event", "ran"}, {"case", "c"}, {"record", to_json(RankRecord{})}, {"group_over", false}, {"untimed", true}};
  answer["checks"] = {to_json(CheckRow{.name = "non-finite", .status = CheckStatus::failed})};
  watch.on_line(0, answer.dump(), 1);
  const auto outcome = watch.verdict(1);
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->group_over);
  EXPECT_TRUE(outcome->ranks.empty());
}

// Returns the message of a rank that failed in the checks before timing.
std::string failed_in_checks(int rank, const std::string& kind, const std::string& reason) {
  Json answer = Json::parse(ran(rank));
  answer["untimed"] = true;
  answer["failed"] = {{"kind", kind}, {"reason", reason}};
  if (rank == 0) answer["checks"] = {to_json(CheckRow{.name = "run-completes", .status = CheckStatus::failed})};
  return answer.dump();
}

TEST(CaseWatch, KeepsTheResultsOfChecksIfARankFailsDuringTheChecks) {
  CaseWatch watch = watch_of(2);
  watch.on_line(1, failed_in_checks(1, "nan", "the loss of step 2 is nan"), 1.0);
  EXPECT_FALSE(watch.verdict(1.1)) << "the check rows come from rank 0";
  watch.on_line(0, failed_in_checks(0, "peer", "the ranks call different collectives"), 1.1);
  const auto outcome = watch.verdict(1.1);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, Kind::failed);
  EXPECT_EQ(outcome->culprit, 1);
  expect_contains(outcome->reason, {"not a number", "rank 1", "the loss of step 2 is nan"});
  EXPECT_EQ(outcome->checks.size(), 1u);
  EXPECT_TRUE(outcome->ranks.empty());
}

TEST(CaseWatch, BlamesTheRankThatThrewNotThePeersThatFailedBecauseOfIt) {
  CaseWatch watch = watch_of(2);
  watch.on_line(0, failed_in_checks(0, "peer", "the ranks call different collectives"), 1.0);
  watch.on_line(1, failed_in_checks(1, "failure", "its own words"), 1.1);
  EXPECT_EQ(watch.verdict(1.1)->culprit, 1);
  expect_contains(watch.verdict(1.1)->reason, {"rank 1", "its own words"});
  CaseWatch alone = watch_of(1);
  alone.on_line(0, failed_in_checks(0, "peer", "the ranks call different collectives"), 1.0);
  EXPECT_EQ(alone.verdict(1.0)->kind, Kind::failed) << "no better explanation exists";
}

TEST(CaseWatch, ReportsADeadRankWithTheCollectiveInWhichItsPeerWaited) {
  CaseWatch watch = watch_of(2);
  watch.on_line(0, failed(0, "failure", "rank 1 (pid 5) died while rank 0 waited in #7 allreduce"), 1.0);
  watch.on_death(1, SIGKILL, 1.1);
  const auto outcome = watch.verdict(5);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->culprit, 1);
  expect_contains(outcome->reason, {"signal 9", "rank 1 (pid 5) died while rank 0 waited in #7 allreduce"});
  EXPECT_LT(outcome->reason.find("signal 9"), outcome->reason.find("(pid 5)")) << "the cause comes first";
}

TEST(CaseWatch, BlamesARankKilledByASignalNotPeersWithEarlierErrors) {
  CaseWatch watch = watch_of(3);
  watch.on_line(0, failed(0, "failure", "[..] Connection reset by peer"), 1.0);
  EXPECT_FALSE(watch.verdict(1.1)) << "a better explanation may still arrive";
  watch.on_death(2, killed_by(SIGKILL), 1.2);
  watch.on_death(1, killed_by(SIGABRT), 1.2);
  const auto outcome = watch.verdict(1.2);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->culprit, 2);
  expect_contains(outcome->reason, {"rank 2", "signal 9 (SIGKILL)"});
}

TEST(CaseWatch, ReportsAConnectionErrorOnlyAfterAGracePeriodWithoutABetterCause) {
  CaseWatch watch = watch_of(2);
  watch.on_line(1, failed(1, "failure", "timeout in the store"), 1.0);
  EXPECT_FALSE(watch.verdict(3.9)) << "on a busy machine the other rank may need seconds to report the cause";
  ASSERT_TRUE(watch.verdict(4.1));
  expect_contains(watch.verdict(4.1)->reason, {"rank 1", "timeout in the store"});
}

TEST(CaseWatch, BlamesTheRankThatThrewEvenIfItReportsLate) {
  CaseWatch watch = watch_of(2);
  watch.on_line(0, failed(0, "failure", "rank 1 (pid 9) left the group while rank 0 (pid 8) waited in #3 barrier"),
                1.0);
  EXPECT_FALSE(watch.verdict(3));
  watch.on_line(1, failed(1, "failure", "its own words"), 3.5);
  expect_contains(watch.verdict(3.5)->reason, {"rank 1", "its own words"});
}

TEST(CaseWatch, ReportsHowManyScenariosOfTheChecksHaveBegun) {
  CaseWatch watch = watch_of(2);
  EXPECT_EQ(watch.checking(), "");
  watch.on_line(0, R"({"event": "checking", "case": "c", "number": 4, "of": 8})", 1.0);
  EXPECT_EQ(watch.checking(), "checking: 4 of 8");
  expect_contains(watch.verdict(100)->reason, {"checking: 4 of 8"});
}

TEST(CaseWatch, BlamesTheRankThatExitedNotTheOneThatWaited) {
  CaseWatch watch = watch_of(2);
  watch.on_line(0, R"({"event": "failed", "case": "c", "rank": 0, "kind": "failure",
                       "reason": "rank 1 (pid 9) died while rank 0 (pid 8) waited in #3 allreduce"})",
                1.0);
  watch.on_death(1, 7 << 8, 1.1);
  EXPECT_EQ(watch.verdict(2.0)->culprit, 1);
  expect_contains(watch.verdict(2.0)->reason, {"rank 1", "exit code 7"});
}

TEST(CaseWatch, BlamesARankThatReportedAnErrorNotARankThatAborted) {
  CaseWatch watch = watch_of(2);
  watch.on_death(0, killed_by(SIGABRT), 1.0);
  watch.on_line(1, failed(1, "nan", "gradient of n.1.weight at 3"), 1.1);
  expect_contains(watch.verdict(1.1)->reason, {"not a number", "rank 1", "n.1.weight"});
}

TEST(CaseWatch, BlamesTheRankThatWasKilledFirst) {
  CaseWatch watch = watch_of(2);
  watch.on_death(1, killed_by(SIGSEGV), 1.0);
  watch.on_death(0, killed_by(SIGKILL), 1.1);
  EXPECT_EQ(watch.verdict(1.1)->culprit, 1);
}

TEST(CaseWatch, ReportsTheStepAtWhichARankExitedEarly) {
  CaseWatch watch = watch_of(2);
  watch.on_states({{.step = 4, .beat = 9}, {.step = 3, .beat = 8}}, 0.5);
  watch.on_death(1, exited_with(0), 1.0);
  expect_contains(watch.verdict(1.4)->reason, {"rank 1", "exit code 0", "step 3"});
}

TEST(CaseWatch, NamesTheScenarioOfTheChecksInWhichARankCrashedOrHung) {
  const std::vector<RankState> states = {{.step = Progress::in_checks, .beat = 9, .place = "step 2 of scenario even"},
                                         {.step = Progress::in_checks, .beat = 8, .place = "step 1 of scenario even"}};
  CaseWatch crashed = watch_of(2), hung = watch_of(2);
  for (CaseWatch* watch : {&crashed, &hung}) watch->on_states(states, 0.5);
  crashed.on_death(1, killed_by(SIGSEGV), 1.0);
  EXPECT_TRUE(mentions_in_order(crashed.verdict(1.4)->reason, {"rank 1", "signal 11 (SIGSEGV) in ", states[1].place}));
  EXPECT_TRUE(mentions_in_order(hung.verdict(0.5 + kTimeout)->reason, {"rank 1", "stuck in ", states[1].place}));
}

TEST(CaseWatch, ARankThatHangsBeforeTheChecksIsNamedIfAnotherRankIsInThem) {
  CaseWatch watch = watch_of(2);
  watch.on_states({{.step = Progress::in_checks, .beat = 9, .place = "step 1 of scenario even"}, {.beat = 8}}, 0.5);
  expect_contains(watch.verdict(0.5 + kTimeout)->reason, {"rank 1 is stuck at step 0"});
}

TEST(CaseWatch, NamesTheStepAndTheActionInWhichARankCrashedOrHung) {
  const std::vector<RankState> states = {{.step = 4, .beat = 9, .place = "0B1"},
                                         {.step = 3, .beat = 8, .place = "1F2"}};
  CaseWatch crashed = watch_of(2), hung = watch_of(2);
  for (CaseWatch* watch : {&crashed, &hung}) watch->on_states(states, 0.5);
  crashed.on_death(1, killed_by(SIGKILL), 1.0);
  expect_contains(crashed.verdict(1.4)->reason, {"rank 1", "signal 9 (SIGKILL) at step 3, in 1F2"});
  expect_contains(hung.verdict(0.5 + kTimeout)->reason, {"rank 1 is stuck at step 3, in 1F2"});
}

TEST(CaseWatch, ReportsTheExitCodeOfARank) {
  CaseWatch watch = watch_of(1);
  watch.on_death(0, exited_with(7), 1.0);
  expect_contains(watch.verdict(1.0)->reason, {"exit code 7"});
}

TEST(CaseWatch, NamesTheErrorThatARankReportedNotTheSignalThatEndedTheRankAfterwards) {
  CaseWatch watch = watch_of(1);
  watch.on_line(0, failed(0, "oom", "asked for 3 GiB"), 1.0);
  watch.on_death(0, killed_by(SIGKILL), 1.0);
  expect_contains(watch.verdict(1.0)->reason, {"out of memory", "3 GiB"});
}

TEST(CaseWatch, BlamesTheStuckRankNotTheWaitingOnes) {
  CaseWatch watch = watch_of(3);
  watch.on_states({{.step = 5, .beat = 20}, {.step = 5, .beat = 18}, {.step = 5, .beat = 20}}, 1.0);
  EXPECT_FALSE(watch.verdict(2.9));
  const auto outcome = watch.verdict(3.0);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->culprit, 1);
  expect_contains(outcome->reason, {"2 s", "--timeout", "rank 1", "step 5"});
}

TEST(CaseWatch, AHangReportNamesTheLastCollectiveOfEachRank) {
  CaseWatch watch = watch_of(3);
  watch.on_states({{.step = 5, .beat = 20, .collectives = 33},
                   {.step = 5, .beat = 18, .collectives = 32},
                   {.step = 5, .beat = 20, .collectives = 33}},
                  1.0);
  expect_contains(watch.verdict(3.0)->reason, {"step 5", "#33: rank 0, 2", "#32: rank 1"});
  CaseWatch many = watch_of(64), none = watch_of(2);
  std::vector<RankState> states(64, {.beat = 9, .collectives = 7});
  states[63] = {.beat = 8, .collectives = 6};
  many.on_states(states, 1.0);
  expect_contains(many.verdict(3.0)->reason, {"step 0", "#7: 63 ranks", "#6: rank 63"});
  EXPECT_EQ(none.verdict(3.0)->reason.find('#'), std::string::npos) << "replicas of one process call no collectives";
}

RankState at_call(int64_t number, uint64_t hash, const std::string& text, int64_t step = 5) {
  return {
      .step = step, .beat = number, .collectives = number, .calls = {{.number = number, .hash = hash, .text = text}}};
}

TEST(CaseWatch, BlamesNoRankWhenAllHangAtTheSameStep) {
  CaseWatch watch = watch_of(3);
  watch.on_states(std::vector<RankState>(3, at_call(143, 77, "allreduce of 12 Float (sum)", 30)), 1.0);
  const auto outcome = watch.verdict(3.0);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, Kind::failed);
  EXPECT_EQ(outcome->culprit, -1);
  expect_contains(outcome->reason, {"2 s", "--timeout", "step 30", "#143: rank 0, 1, 2 (allreduce of 12 Float (sum))"});
}

TEST(CaseWatch, AHangReportNamesMismatchedCollectives) {
  CaseWatch watch = watch_of(3);
  const RankState usual = at_call(143, 77, "allreduce of 12 Float (sum)");
  watch.on_states({usual, at_call(143, 78, "broadcast of 3 Float with root 0"), usual}, 1.0);
  const auto outcome = watch.verdict(3.0);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->culprit, -1) << "it is unknown which rank is right";
  expect_contains(outcome->reason,
                  {"#143", "rank 0, 2 allreduce of 12 Float (sum)", "rank 1 broadcast of 3 Float with root 0"});
}

TEST(CaseWatch, ComparesCollectivesOfTheSameNumberEvenIfOneRankIsAhead) {
  CaseWatch watch = watch_of(2), skipped = watch_of(2);
  RankState ahead = at_call(143, 78, "broadcast of 3 Float with root 0", 6);
  ahead.calls.push_back({.number = 144, .hash = 79, .text = "allreduce of 12 Float (sum)"});
  ahead.collectives = ahead.beat = 144;
  watch.on_states({ahead, at_call(143, 77, "allreduce of 12 Float (sum)")}, 1.0);
  expect_contains(watch.verdict(3.0)->reason,
                  {"#143", "rank 0 broadcast of 3 Float with root 0", "rank 1 allreduce of 12 Float (sum)"});
  skipped.on_states({at_call(143, 77, "barrier", 5), at_call(143, 78, "allreduce of 12 Float (sum)", 6)}, 1.0);
  expect_contains(skipped.verdict(3.0)->reason, {"#143", "rank 0 barrier", "rank 1 allreduce of 12 Float (sum)"});
}

TEST(CaseWatch, DetectsEarlierMismatchedCollectivesByHash) {
  CaseWatch watch = watch_of(2);
  watch.on_states({at_call(143, 77, "barrier"), at_call(143, 78, "barrier")}, 1.0);
  expect_contains(watch.verdict(3.0)->reason, {"different collectives", "#143"});
}

TEST(CaseWatch, BlamesTheRankThatIsOneCollectiveBehind) {
  CaseWatch watch = watch_of(2);
  RankState ahead = at_call(7, 77, "barrier");
  ahead.calls.push_back({.number = 8, .hash = 78, .text = "allreduce of 12 Float (sum)"});
  ahead.collectives = ahead.beat = 8;
  watch.on_states({ahead, at_call(7, 77, "barrier")}, 1.0);
  EXPECT_EQ(watch.verdict(3.0)->culprit, 1);
  expect_contains(watch.verdict(3.0)->reason,
                  {"step 5", "#8: rank 0 (allreduce of 12 Float (sum))", "#7: rank 1 (barrier)"});
}

TEST(CaseWatch, MismatchedCollectivesAreTheCauseOfErrorsAndAbortsButNotOfASigkill) {
  const std::vector<RankState> states = {at_call(143, 77, "allreduce of 12 Float (sum)"),
                                         at_call(143, 78, "allreduce of 1 Long (max)")};
  CaseWatch echo = watch_of(2), aborted = watch_of(2), killed = watch_of(2);
  for (CaseWatch* watch : {&echo, &aborted, &killed}) watch->on_states(states, 0.5);
  echo.on_line(0, failed(0, "failure", "Connection closed by peer"), 1.0);
  aborted.on_death(0, killed_by(SIGABRT), 1.0);
  killed.on_death(1, killed_by(SIGKILL), 1.0);
  const std::string after_echo = echo.verdict(2)->reason, after_abort = aborted.verdict(2)->reason,
                    after_kill = killed.verdict(2)->reason;
  for (const std::string& reason : {after_echo, after_abort, after_kill})
    expect_contains(reason, {"#143", "rank 0 allreduce of 12 Float (sum)", "rank 1 allreduce of 1 Long (max)"});
  expect_contains(after_echo, {"Connection closed by peer"});
  EXPECT_LT(after_echo.find("#143"), after_echo.find("Connection closed by peer"));
  expect_contains(after_abort, {"signal 6"});
  EXPECT_LT(after_abort.find("#143"), after_abort.find("signal 6"));
  expect_contains(after_kill, {"signal 9"});
  EXPECT_LT(after_kill.find("signal 9"), after_kill.find("#143")) << "SIGKILL is the cause, the mismatch an addition";
}

TEST(CaseWatch, ComparesCollectivesWithinEachGroup) {
  const auto in_group = [](uint64_t group, uint64_t hash, const std::string& text) {
    RankState state = at_call(143, hash, text);
    state.calls[0].group = group;
    return state;
  };
  CaseWatch others = watch_of(3), same = watch_of(3);
  others.on_states({in_group(1, 77, "barrier"), in_group(2, 78, "allgather of 3 Float"), in_group(1, 77, "barrier")},
                   1);
  EXPECT_EQ(others.verdict(3.0)->reason.find("different"), std::string::npos) << others.verdict(3.0)->reason;
  same.on_states({in_group(1, 77, "barrier"), in_group(2, 78, "barrier"), in_group(1, 79, "allgather of 3 Float")}, 1);
  expect_contains(same.verdict(3.0)->reason, {"#143", "rank 0 barrier, rank 2 allgather of 3 Float"});
}

std::string ran_with_calls(int rank, int64_t count, uint64_t hash, uint64_t group = 0) {
  Json answer = Json::parse(ran(rank));
  answer["calls"] = {{{"group", group}, {"count", count}, {"hash", hash}}};
  return answer.dump();
}

TEST(CaseWatch, ComparesTheRanksCollectivesAtTheEndOfACaseForEachProcessGroup) {
  CaseWatch same = watch_of(4), other = watch_of(4);
  for (const int rank : {0, 1, 2, 3}) {
    const uint64_t group = 1 + rank % 2;
    same.on_line(rank, ran_with_calls(rank, 7, 70 + group, group), 1);
    other.on_line(rank, ran_with_calls(rank, 7, rank == 3 ? 99 : 70 + group, group), 1);
  }
  EXPECT_EQ(same.verdict(1)->kind, Kind::ran);
  EXPECT_EQ(other.verdict(1)->kind, Kind::failed);
  expect_contains(other.verdict(1)->reason, {"rank 1 and rank 3, 7 each"});
}

TEST(CaseWatch, FailsWhenRanksEndWithDifferentCollectives) {
  const uint64_t hash = 0xfedcba9876543210;  // a hash with its top bit set, because JSON must keep all 64 bits
  CaseWatch same = watch_of(2), fewer = watch_of(2), other_hash = watch_of(2), with_calls = watch_of(2);
  for (const int rank : {0, 1}) {
    same.on_line(rank, ran_with_calls(rank, 160, hash), 1);
    fewer.on_line(rank, ran_with_calls(rank, 160 - rank, hash + rank), 1);
    other_hash.on_line(rank, ran_with_calls(rank, 160, hash + rank), 1);
    with_calls.on_line(rank, ran_with_calls(rank, 160, hash + rank), 1);
  }
  EXPECT_EQ(same.verdict(1)->kind, Kind::ran);
  EXPECT_EQ(fewer.verdict(1)->kind, Kind::failed);
  expect_contains(fewer.verdict(1)->reason, {"rank 0", "rank 1", "160", "159"});
  EXPECT_EQ(other_hash.verdict(1)->kind, Kind::failed);
  expect_contains(other_hash.verdict(1)->reason, {"rank 0", "rank 1", "160"});
  with_calls.on_states({at_call(143, 77, "barrier"), at_call(143, 78, "allreduce of 12 Float (sum)")}, 1.0);
  expect_contains(with_calls.verdict(1)->reason, {"#143", "rank 0 barrier", "rank 1 allreduce of 12 Float (sum)"});
}

TEST(CaseWatch, BlamesAStoppedRankEvenIfItIsAheadOfTheOthers) {
  CaseWatch watch = watch_of(2);
  watch.on_states({{.step = 5, .beat = 20}, {.step = 6, .beat = 22, .stopped = true}}, 0);
  EXPECT_EQ(watch.verdict(2)->culprit, 1);
  expect_contains(watch.verdict(2)->reason, {"rank 1", "stopped"});
}

TEST(CaseWatch, DoesNotReportASlowRankAsStuck) {
  CaseWatch watch = watch_of(2);
  for (int tick = 1; tick < 20; ++tick) {
    watch.on_states({{.step = 0, .beat = 0}, {.step = 0, .beat = tick}}, tick * 1.9);
    EXPECT_FALSE(watch.verdict(tick * 1.9 + 1.8));
  }
}

TEST(CaseWatch, NeverBlamesARankThatHasReportedItsResult) {
  CaseWatch watch = watch_of(2);
  watch.on_states({{.step = 1, .beat = 1}, {.step = 9, .beat = 9}}, 0);
  watch.on_line(0, ran(0), 0.5);
  EXPECT_EQ(watch.verdict(2.5)->culprit, 1);
}

TEST(CaseWatch, NamesTheRankThatNeverJoined) {
  CaseWatch watch("c", Event::ran, 3, kTimeout, false, 0);
  for (const int rank : {0, 2}) watch.on_line(rank, R"({"event":"ready","rank":0,"pid":1,"torch":"2"})", 0.5);
  const auto outcome = watch.verdict(2.5);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->never_started);
  expect_contains(outcome->reason, {"2 of 3", "missing 1"});
}

TEST(CaseWatch, RanksThatWaitForAMissingRankAreNotReportedAsMissing) {
  CaseWatch watch("c", Event::ran, 3, kTimeout, false, 0), all("c", Event::ran, 2, kTimeout, false, 0);
  watch.on_states({{.beat = 1}, {.beat = 0}, {.beat = 1}}, 0.5);
  EXPECT_EQ(watch.verdict(2.5)->culprit, 1);
  expect_contains(watch.verdict(2.5)->reason, {"2 of 3", "missing 1"});
  all.on_states({{.beat = 1}, {.beat = 1}}, 0.5);
  expect_contains(all.verdict(2.5)->reason, {"0 of 2", "missing 0, 1"});
}

TEST(CaseWatch, ARankThatImportsPythonModulesIsReportedAsMissingOnlyATimeoutAfterItsLastImport) {
  CaseWatch watch("c", Event::ran, 2, kTimeout, false, 0);
  for (int tick = 1; tick < 5; ++tick) {
    watch.on_states({{.beat = 1}, {.beat = -tick}}, tick * 1.9);
    EXPECT_FALSE(watch.verdict(tick * 1.9 + 1.8));
  }
  expect_contains(watch.verdict(4 * 1.9 + kTimeout)->reason, {"1 of 2", "missing 1"});
}

TEST(CaseWatch, NamesTheHostOfTheFailedRankInRunsOnSeveralHosts) {
  const auto spread = [](bool ready) {
    return CaseWatch("c", Event::ran, 2, kTimeout, ready, 0, {}, {" on left", " on right"});
  };
  CaseWatch dying = spread(true), failing = spread(true), hanging = spread(true), missing = spread(false),
            silent = spread(true);
  dying.on_death(1, killed_by(SIGKILL), 1);
  expect_contains(dying.verdict(2)->reason, {"rank 1 on right", "signal 9"});
  failing.on_line(0, failed(0, "failure", "no luck"), 1);
  expect_contains(failing.verdict(2)->reason, {"rank 0 on left", "no luck"});
  hanging.on_states({{.step = 5, .beat = 5}, {.step = 3, .beat = 3}}, 1);
  expect_contains(hanging.verdict(1 + kTimeout)->reason, {"rank 1 on right", "step 3"});
  missing.on_line(0, Json({{"event", "ready"}, {"rank", 0}}).dump(), 1);
  expect_contains(missing.verdict(1 + kTimeout)->reason, {"1 of 2", "missing 1 on right"});
  silent.on_offence(1, "is silent", 1);
  expect_contains(silent.verdict(2)->reason, {"rank 1 on right", "is silent"});
}

TEST(CaseWatch, ReportsOomKillsAsOutOfMemory) {
  CaseWatch watch = watch_of(2);
  watch.on_states({{.step = 7}, {.step = 7}}, 0.5);
  watch.on_death(1, killed_by(SIGKILL), 1, "cgroup limit of 4096 bytes");
  watch.on_line(0, failed(0, "failure", "Connection closed by peer"), 1.1);
  expect_contains(watch.verdict(2)->reason, {"out of memory", "rank 1", "signal 9", "step 7",
                                             "cgroup limit of 4096 bytes", "rank 0", "Connection closed"});
  EXPECT_TRUE(watch.verdict(2)->out_of_memory);
}

TEST(CaseWatch, ReportsWhetherRankZeroRefusedAScenarioOrTheModel) {
  CaseWatch watch("c", Event::checked, 2, kTimeout, true, 0);
  for (const int rank : {0, 1})
    watch.on_line(rank, Json({{"event", "checked"}, {"case", "c"}, {"refused", rank == 0 ? "model" : "none"}}).dump(),
                  1);
  EXPECT_EQ(watch.verdict(1)->refusal, Refusal::model);
}

TEST(CaseWatch, FailsTheCaseOnWorkerLinesThatBreakTheProtocol) {
  for (const std::string line :
       {"", "hello", "{}", "[1]", R"({"event":"ran","case":"another"})", R"({"event":"ran","case":"c","record":{}})",
        R"({"event":"checked","case":"c","checks":[]})", R"({"event":7,"case":"c"})", "{\"event\":\"\xFF\"}"}) {
    CaseWatch watch = watch_of(1);
    watch.on_line(0, line, 1.0);
    ASSERT_TRUE(watch.verdict(2)) << line;
    EXPECT_EQ(watch.verdict(2)->kind, Kind::failed) << line;
    expect_contains(watch.verdict(2)->reason, {"protocol"});
  }
}

TEST(CaseWatch, StripsControlCharactersFromTheReasonsOfFailures) {
  CaseWatch watch = watch_of(1);
  watch.on_line(0, failed(0, "failure", "\x1B[31mred\a"), 1.0);
  EXPECT_EQ(watch.verdict(2)->reason.find_first_of("\x1B\a"), std::string::npos);
}

TEST(CaseWatch, ReportsAUsageErrorOfARankAsAUsageError) {
  CaseWatch watch = watch_of(1);
  watch.on_line(0, failed(0, "usage", "images: magic number 7"), 1.0);
  EXPECT_EQ(watch.verdict(2)->kind, Kind::usage);
  EXPECT_EQ(watch.verdict(2)->reason, "images: magic number 7");
}

}  // namespace
}  // namespace dpbench
