// Who is to blame when a case fails.
#include <signal.h>

#include "harness/front/launch/case_watch.h"
#include "tests/unit/front/launch_parts.h"

namespace dpbench {
namespace {

using Kind = CaseOutcome::Kind;

constexpr double kTimeout = 2;
int killed_by(int signal) { return signal; }  // as waitpid encodes them
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

TEST(CaseWatch, RunsUntilEveryRankHasAnswered) {
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

TEST(CaseWatch, HearsWhatRankZeroSaysOfItsTraining) {
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

TEST(CaseWatch, WantsNoLinesWhereNobodyListens) {
  const std::string line = Json({{"event", "line"}, {"case", "c"}, {"text", "x"}}).dump();
  CaseWatch deaf = watch_of(2);
  deaf.on_line(0, line, 0.1);
  expect_says(deaf.verdict(0.5)->reason, {"rank 0", "'line'"});
  CaseWatch watch("c", Event::trained, 2, kTimeout, true, 0, [](const Json&) { FAIL() << "rank 0 alone speaks"; });
  watch.on_line(1, line, 0.1);
  expect_says(watch.verdict(0.5)->reason, {"rank 1", "'line'"});
}

TEST(CaseWatch, AGroupThatItsChecksBrokeHasMeasuredNothing) {
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

TEST(CaseWatch, WhatTheChecksRefusedIsNotMeasuredButItsGroupGoesOn) {
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

// An answer with what the checks before timing met.
std::string refused(int rank, const std::string& kind, const std::string& reason) {
  Json answer = Json::parse(ran(rank));
  answer["untimed"] = true;
  answer["failed"] = {{"kind", kind}, {"reason", reason}};
  if (rank == 0) answer["checks"] = {to_json(CheckRow{.name = "run-completes", .status = CheckStatus::failed})};
  return answer.dump();
}

TEST(CaseWatch, WhatWouldHaveFailedTheTimedStepsIsAFailureThatKeepsItsRows) {
  CaseWatch watch = watch_of(2);
  watch.on_line(1, refused(1, "nan", "the loss of step 2 is nan"), 1.0);
  EXPECT_FALSE(watch.verdict(1.1)) << "rank 0 has the rows";
  watch.on_line(0, refused(0, "peer", "the ranks call different collectives"), 1.1);
  const auto outcome = watch.verdict(1.1);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, Kind::failed);
  EXPECT_EQ(outcome->culprit, 1);
  expect_says(outcome->reason, {"not a number: rank 1 failed: the loss of step 2 is nan"});
  EXPECT_EQ(outcome->checks.size(), 1u);
  EXPECT_TRUE(outcome->ranks.empty());
}

TEST(CaseWatch, AnExceptionInTheChecksOutweighsWhatOthersMadeOfIt) {
  CaseWatch watch = watch_of(2);
  watch.on_line(0, refused(0, "peer", "the ranks call different collectives"), 1.0);
  watch.on_line(1, refused(1, "failure", "its own words"), 1.1);
  expect_says(watch.verdict(1.1)->reason, {"rank 1 failed: its own words"});
  CaseWatch apart = watch_of(1);
  apart.on_line(0, refused(0, "peer", "the ranks call different collectives"), 1.0);
  EXPECT_EQ(apart.verdict(1.0)->kind, Kind::failed) << "where there is nothing better to say";
}

TEST(CaseWatch, ADeathIsToldWithWhatTheOthersWereDoing) {
  CaseWatch watch = watch_of(2);
  watch.on_line(0, failed(0, "failure", "rank 1 (pid 5) died while rank 0 waited in #7 allreduce"), 1.0);
  watch.on_death(1, SIGKILL, 1.1);
  const auto outcome = watch.verdict(5);
  ASSERT_TRUE(outcome);
  EXPECT_NE(outcome->reason.find("rank 1 was ended by signal 9"), std::string::npos) << outcome->reason;
  EXPECT_NE(outcome->reason.find("; rank 0 failed: rank 1 (pid 5) died while rank 0 waited in #7 allreduce"),
            std::string::npos)
      << outcome->reason;
}

TEST(CaseWatch, ASignalExplainsTheEchoesThatCameBefore) {
  CaseWatch watch = watch_of(3);
  watch.on_line(0, failed(0, "failure", "[..] Connection reset by peer"), 1.0);
  EXPECT_FALSE(watch.verdict(1.1)) << "there may be more to learn";
  watch.on_death(2, killed_by(SIGKILL), 1.2);
  watch.on_death(1, killed_by(SIGABRT), 1.2);
  const auto outcome = watch.verdict(1.2);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->culprit, 2);
  expect_says(outcome->reason, {"rank 2", "signal 9 (SIGKILL)"});
}

TEST(CaseWatch, AnEchoAloneIsReportedAfterTheGrace) {
  CaseWatch watch = watch_of(2);
  watch.on_line(1, failed(1, "failure", "timeout in the store"), 1.0);
  EXPECT_FALSE(watch.verdict(1.2));
  ASSERT_TRUE(watch.verdict(1.31));
  expect_says(watch.verdict(1.31)->reason, {"rank 1", "timeout in the store"});
}

TEST(CaseWatch, AnExitExplainsThoseWhoWaitedForIt) {
  CaseWatch watch = watch_of(2);
  watch.on_line(0, R"({"event": "failed", "case": "c", "rank": 0, "kind": "failure",
                       "reason": "rank 1 (pid 9) died while rank 0 (pid 8) waited in #3 allreduce"})",
                1.0);
  watch.on_death(1, 7 << 8, 1.1);
  expect_says(watch.verdict(2.0)->reason, {"rank 1 ended with exit code 7"});
}

TEST(CaseWatch, ADiagnosisOutweighsTheAbortThatFollowsIt) {
  CaseWatch watch = watch_of(2);
  watch.on_death(0, killed_by(SIGABRT), 1.0);
  watch.on_line(1, failed(1, "nan", "gradient of n.1.weight at 3"), 1.1);
  expect_says(watch.verdict(1.1)->reason, {"not a number", "rank 1", "n.1.weight"});
}

TEST(CaseWatch, AmongEqualsTheFirstIsTheCause) {
  CaseWatch watch = watch_of(2);
  watch.on_death(1, killed_by(SIGSEGV), 1.0);
  watch.on_death(0, killed_by(SIGKILL), 1.1);
  EXPECT_EQ(watch.verdict(1.1)->culprit, 1);
}

TEST(CaseWatch, LeavingEarlyIsAFailureAtAStep) {
  CaseWatch watch = watch_of(2);
  watch.on_states({{.step = 4, .beat = 9}, {.step = 3, .beat = 8}}, 0.5);
  watch.on_death(1, exited_with(0), 1.0);
  expect_says(watch.verdict(1.4)->reason, {"rank 1", "left early", "exit code 0", "step 3"});
}

TEST(CaseWatch, AnExitCodeIsNotLost) {
  CaseWatch watch = watch_of(1);
  watch.on_death(0, exited_with(7), 1.0);
  expect_says(watch.verdict(1.0)->reason, {"exit code 7"});
}

TEST(CaseWatch, ARankThatExplainedItselfIsNotBlamedForDying) {
  CaseWatch watch = watch_of(1);
  watch.on_line(0, failed(0, "oom", "asked for 3 GiB"), 1.0);
  watch.on_death(0, killed_by(SIGKILL), 1.0);
  expect_says(watch.verdict(1.0)->reason, {"out of memory", "3 GiB"});
}

TEST(CaseWatch, NamesTheStuckRankNotTheWaiters) {
  CaseWatch watch = watch_of(3);
  watch.on_states({{.step = 5, .beat = 20}, {.step = 5, .beat = 18}, {.step = 5, .beat = 20}}, 1.0);
  EXPECT_FALSE(watch.verdict(2.9));
  const auto outcome = watch.verdict(3.0);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->culprit, 1);
  expect_says(outcome->reason, {"no rank made progress for 2 s", "rank 1 is stuck at step 5"});
}

TEST(CaseWatch, AHangNamesTheLastCollectiveOfEachRank) {
  CaseWatch watch = watch_of(3);
  watch.on_states({{.step = 5, .beat = 20, .collectives = 33},
                   {.step = 5, .beat = 18, .collectives = 32},
                   {.step = 5, .beat = 20, .collectives = 33}},
                  1.0);
  expect_says(watch.verdict(3.0)->reason,
              {"rank 1 is stuck at step 5; in or after collective #33: rank 0, 2; #32: rank 1"});
  CaseWatch many = watch_of(64), none = watch_of(2);
  std::vector<RankState> states(64, {.beat = 9, .collectives = 7});
  states[63] = {.beat = 8, .collectives = 6};
  many.on_states(states, 1.0);
  expect_says(many.verdict(3.0)->reason,
              {"rank 63 is stuck at step 0; in or after collective #7: 63 ranks; #6: rank 63"});
  EXPECT_EQ(none.verdict(3.0)->reason.find("collective"), std::string::npos) << "replicas of one process have none";
}

RankState at_call(int64_t number, uint64_t hash, const std::string& text, int64_t step = 5) {
  return {
      .step = step, .beat = number, .collectives = number, .calls = {{.number = number, .hash = hash, .text = text}}};
}

TEST(CaseWatch, WhereNoRankIsBehindNobodyIsToBlame) {
  CaseWatch watch = watch_of(3);
  watch.on_states(std::vector<RankState>(3, at_call(143, 77, "allreduce of 12 Float (sum)", 30)), 1.0);
  const auto outcome = watch.verdict(3.0);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, Kind::failed);
  EXPECT_EQ(outcome->culprit, -1);
  EXPECT_EQ(outcome->reason,
            "no rank made progress for 2 s (--timeout): no rank is behind the others at step 30; "
            "in or after collective #143: rank 0, 1, 2 (allreduce of 12 Float (sum))");
}

TEST(CaseWatch, RanksThatCallDifferentCollectivesAreNamedWithThem) {
  CaseWatch watch = watch_of(3);
  const RankState usual = at_call(143, 77, "allreduce of 12 Float (sum)");
  watch.on_states({usual, at_call(143, 78, "broadcast of 3 Float with root 0"), usual}, 1.0);
  const auto outcome = watch.verdict(3.0);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->culprit, -1) << "which of them is right is not known";
  expect_says(outcome->reason, {"ranks call different collectives (#143): rank 0, 2 allreduce of 12 Float (sum), rank "
                                "1 broadcast of 3 Float with root 0"});
  EXPECT_EQ(outcome->reason.find("stuck"), std::string::npos) << outcome->reason;
}

TEST(CaseWatch, ARankThatWentOnIsComparedWhereAnotherStands) {
  CaseWatch watch = watch_of(2), skipped = watch_of(2);
  RankState ahead = at_call(143, 78, "broadcast of 3 Float with root 0", 6);
  ahead.calls.push_back({.number = 144, .hash = 79, .text = "allreduce of 12 Float (sum)"});
  ahead.collectives = ahead.beat = 144;
  watch.on_states({ahead, at_call(143, 77, "allreduce of 12 Float (sum)")}, 1.0);
  expect_says(watch.verdict(3.0)->reason,
              {"(#143): rank 0 broadcast of 3 Float with root 0, rank 1 allreduce of 12 Float (sum)"});
  skipped.on_states({at_call(143, 77, "barrier", 5), at_call(143, 78, "allreduce of 12 Float (sum)", 6)}, 1.0);
  expect_says(skipped.verdict(3.0)->reason, {"(#143): rank 0 barrier, rank 1 allreduce of 12 Float (sum)"});
}

TEST(CaseWatch, RanksWhoseCallsDifferedLongAgoAreKnownByTheHash) {
  CaseWatch watch = watch_of(2);
  watch.on_states({at_call(143, 77, "barrier"), at_call(143, 78, "barrier")}, 1.0);
  expect_says(watch.verdict(3.0)->reason, {"ranks have called different collectives before #143"});
}

TEST(CaseWatch, WhoIsBehindInTheSameCallsIsTheStuckOne) {
  CaseWatch watch = watch_of(2);
  RankState ahead = at_call(7, 77, "barrier");
  ahead.calls.push_back({.number = 8, .hash = 78, .text = "allreduce of 12 Float (sum)"});
  ahead.collectives = ahead.beat = 8;
  watch.on_states({ahead, at_call(7, 77, "barrier")}, 1.0);
  EXPECT_EQ(watch.verdict(3.0)->culprit, 1);
  expect_says(watch.verdict(3.0)->reason, {"rank 1 is stuck at step 5; in or after collective #8: rank 0 (allreduce of "
                                           "12 Float (sum)); #7: rank 1 (barrier)"});
}

TEST(CaseWatch, DifferentCollectivesExplainWhatTheirBackendMakesOfThem) {
  const std::vector<RankState> states = {at_call(143, 77, "allreduce of 12 Float (sum)"),
                                         at_call(143, 78, "allreduce of 1 Long (max)")};
  const std::string differ =
      "ranks call different collectives (#143): rank 0 allreduce of 12 Float (sum), rank 1 allreduce of 1 Long (max)";
  CaseWatch echo = watch_of(2), dead = watch_of(2), killed = watch_of(2);
  for (CaseWatch* watch : {&echo, &dead, &killed}) watch->on_states(states, 0.5);
  echo.on_line(0, failed(0, "failure", "Connection closed by peer"), 1.0);
  EXPECT_EQ(echo.verdict(2)->reason, differ + "; rank 0 failed: Connection closed by peer");
  dead.on_death(0, killed_by(SIGABRT), 1.0);
  EXPECT_EQ(dead.verdict(2)->reason.find(differ + "; rank 0 was ended by signal 6"), 0U) << dead.verdict(2)->reason;
  killed.on_death(1, killed_by(SIGKILL), 1.0);
  EXPECT_EQ(killed.verdict(2)->reason.find("rank 1 was ended by signal 9"), 0U) << "that needs no explanation";
  expect_says(killed.verdict(2)->reason, {differ});
}

std::string ran_with_calls(int rank, int64_t count, uint64_t hash) {
  Json answer = Json::parse(ran(rank));
  answer["calls"] = {{"count", count}, {"hash", hash}};
  return answer.dump();
}

TEST(CaseWatch, RanksThatEndWithDifferentCollectivesHaveFailed) {
  const uint64_t hash = 0xfedcba9876543210;  // all bits come through
  CaseWatch same = watch_of(2), fewer = watch_of(2), others = watch_of(2), known = watch_of(2);
  for (const int rank : {0, 1}) {
    same.on_line(rank, ran_with_calls(rank, 160, hash), 1);
    fewer.on_line(rank, ran_with_calls(rank, 160 - rank, hash + rank), 1);
    others.on_line(rank, ran_with_calls(rank, 160, hash + rank), 1);
    known.on_line(rank, ran_with_calls(rank, 160, hash + rank), 1);
  }
  EXPECT_EQ(same.verdict(1)->kind, Kind::ran);
  EXPECT_EQ(fewer.verdict(1)->kind, Kind::failed);
  expect_says(fewer.verdict(1)->reason, {"ranks have called different collectives: rank 0 and rank 1, 160 and 159"});
  EXPECT_EQ(others.verdict(1)->kind, Kind::failed);
  expect_says(others.verdict(1)->reason, {"ranks have called different collectives: rank 0 and rank 1, 160 each"});
  known.on_states({at_call(143, 77, "barrier"), at_call(143, 78, "allreduce of 12 Float (sum)")}, 1.0);
  expect_says(known.verdict(1)->reason,
              {"ranks call different collectives (#143): rank 0 barrier, rank 1 allreduce of 12 Float (sum)"});
}

TEST(CaseWatch, AStoppedRankIsTheStuckOneEvenWhenItIsAhead) {
  CaseWatch watch = watch_of(2);
  watch.on_states({{.step = 5, .beat = 20}, {.step = 6, .beat = 22, .stopped = true}}, 0);
  expect_says(watch.verdict(2)->reason, {"rank 1 is stopped"});
}

TEST(CaseWatch, SlowIsNotStuck) {
  CaseWatch watch = watch_of(2);
  for (int tick = 1; tick < 20; ++tick) {
    watch.on_states({{.step = 0, .beat = 0}, {.step = 0, .beat = tick}}, tick * 1.9);
    EXPECT_FALSE(watch.verdict(tick * 1.9 + 1.8));
  }
}

TEST(CaseWatch, ARankThatHasAnsweredIsNeverTheStuckOne) {
  CaseWatch watch = watch_of(2);
  watch.on_states({{.step = 1, .beat = 1}, {.step = 9, .beat = 9}}, 0);
  watch.on_line(0, ran(0), 0.5);
  EXPECT_EQ(watch.verdict(2.5)->culprit, 1);
}

TEST(CaseWatch, SaysWhoNeverJoined) {
  CaseWatch watch("c", Event::ran, 3, kTimeout, false, 0);
  for (const int rank : {0, 2}) watch.on_line(rank, R"({"event":"ready","rank":0,"pid":1,"torch":"2"})", 0.5);
  const auto outcome = watch.verdict(2.5);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->never_started);
  expect_says(outcome->reason, {"2 of 3 ranks joined", "missing 1"});
}

TEST(CaseWatch, WhoWaitsForThoseThatNeverJoinedIsNotMissing) {
  CaseWatch watch("c", Event::ran, 3, kTimeout, false, 0), all("c", Event::ran, 2, kTimeout, false, 0);
  watch.on_states({{.beat = 1}, {.beat = 0}, {.beat = 1}}, 0.5);
  EXPECT_EQ(watch.verdict(2.5)->culprit, 1);
  expect_says(watch.verdict(2.5)->reason, {"2 of 3 ranks joined, missing 1"});
  all.on_states({{.beat = 1}, {.beat = 1}}, 0.5);
  expect_says(all.verdict(2.5)->reason, {"0 of 2 ranks joined, missing 0, 1"});
}

TEST(CaseWatch, NamesTheHostWhereThereAreSeveral) {
  const auto spread = [](bool ready) {
    return CaseWatch("c", Event::ran, 2, kTimeout, ready, 0, {}, {"left", "right"});
  };
  CaseWatch dying = spread(true), failing = spread(true), hanging = spread(true), missing = spread(false),
            silent = spread(true);
  dying.on_death(1, killed_by(SIGKILL), 1);
  expect_says(dying.verdict(2)->reason, {"rank 1 on right was ended by signal 9"});
  failing.on_line(0, failed(0, "failure", "no luck"), 1);
  expect_says(failing.verdict(2)->reason, {"rank 0 on left failed: no luck"});
  hanging.on_states({{.step = 5, .beat = 5}, {.step = 3, .beat = 3}}, 1);
  expect_says(hanging.verdict(1 + kTimeout)->reason, {"rank 1 on right is stuck at step 3"});
  missing.on_line(0, Json({{"event", "ready"}, {"rank", 0}}).dump(), 1);
  expect_says(missing.verdict(1 + kTimeout)->reason, {"1 of 2 ranks joined, missing 1 on right"});
  silent.on_offence(1, "has not been heard of for 10 s", 1);
  expect_says(silent.verdict(2)->reason, {"rank 1 on right has not been heard of for 10 s"});
}

TEST(CaseWatch, AKillForMemoryIsToldFromOthers) {
  CaseWatch watch = watch_of(2);
  watch.on_states({{.step = 7}, {.step = 7}}, 0.5);
  watch.on_death(1, killed_by(SIGKILL), 1, "killed by the control group's limit of 4096 bytes");
  watch.on_line(0, failed(0, "failure", "Connection closed by peer"), 1.1);
  expect_says(watch.verdict(2)->reason,
              {"out of memory: rank 1 was ended by signal 9",
               "at step 7: killed by the control group's limit of 4096 bytes", "; rank 0 failed: Connection closed"});
}

TEST(CaseWatch, WhatIsNotTheProtocolIsAFailure) {
  for (const std::string line :
       {"", "hello", "{}", "[1]", R"({"event":"ran","case":"another"})", R"({"event":"ran","case":"c","record":{}})",
        R"({"event":"checked","case":"c","checks":[]})", R"({"event":7,"case":"c"})", "{\"event\":\"\xFF\"}"}) {
    CaseWatch watch = watch_of(1);
    watch.on_line(0, line, 1.0);
    ASSERT_TRUE(watch.verdict(2)) << line;
    expect_says(watch.verdict(2)->reason, {"not the protocol"});
  }
}

TEST(CaseWatch, ReasonsCarryNoControlCharacters) {
  CaseWatch watch = watch_of(1);
  watch.on_line(0, failed(0, "failure", "\x1B[31mred\a"), 1.0);
  EXPECT_EQ(watch.verdict(2)->reason.find_first_of("\x1B\a"), std::string::npos);
}

TEST(CaseWatch, AUsersMistakeKeepsItsKind) {
  CaseWatch watch = watch_of(1);
  watch.on_line(0, failed(0, "usage", "images: magic number 7"), 1.0);
  EXPECT_EQ(watch.verdict(2)->kind, Kind::usage);
  EXPECT_EQ(watch.verdict(2)->reason, "images: magic number 7");
}

}  // namespace
}  // namespace dpbench
