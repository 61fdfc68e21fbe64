// Who is to blame when a case fails, what is left behind, and what a worker that misbehaves can do: nothing.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "harness/front/launcher.h"
#include "harness/front/oom_kills.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;
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

CaseWatch watch_of(int ranks) { return CaseWatch("c", "ran", ranks, kTimeout, true, 0); }

void expect_says(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

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
  CaseWatch watch("c", "trained", 2, kTimeout, true, 0, [&](const Json& event) { heard.push_back(event.at("text")); });
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
  CaseWatch watch("c", "trained", 2, kTimeout, true, 0, [](const Json&) { FAIL() << "rank 0 alone speaks"; });
  watch.on_line(1, line, 0.1);
  expect_says(watch.verdict(0.5)->reason, {"rank 1", "'line'"});
}

TEST(CaseWatch, AGroupThatItsChecksBrokeHasMeasuredNothing) {
  CaseWatch watch("c", "ran", 1, 30, true, 0);
  Json answer = {{"event", "ran"}, {"case", "c"}, {"record", to_json(RankRecord{})}, {"group_over", true}};
  answer["checks"] = {to_json(CheckRow{.name = "run-completes", .status = "failed"})};
  watch.on_line(0, answer.dump(), 1);
  const auto outcome = watch.verdict(1);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, Kind::ran);
  EXPECT_TRUE(outcome->group_over);
  EXPECT_TRUE(outcome->ranks.empty());
  EXPECT_EQ(outcome->checks.size(), 1u);
}

TEST(CaseWatch, WhatTheChecksRefusedIsNotMeasuredButItsGroupGoesOn) {
  CaseWatch watch("c", "ran", 1, 30, true, 0);
  Json answer = {{"event", "ran"}, {"case", "c"}, {"record", to_json(RankRecord{})}, {"group_over", false}, {"untimed", true}};
  answer["checks"] = {to_json(CheckRow{.name = "non-finite", .status = "failed"})};
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
  if (rank == 0) answer["checks"] = {to_json(CheckRow{.name = "run-completes", .status = "failed"})};
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
  EXPECT_NE(outcome->reason.find("; rank 0 failed: rank 1 (pid 5) died while rank 0 waited in #7 allreduce"), std::string::npos)
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
                       "reason": "rank 1 (pid 9) died while rank 0 (pid 8) waited in #3 allreduce"})", 1.0);
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
  watch.on_states({{.step = 5, .beat = 20, .collectives = 33}, {.step = 5, .beat = 18, .collectives = 32}, {.step = 5, .beat = 20, .collectives = 33}}, 1.0);
  expect_says(watch.verdict(3.0)->reason, {"rank 1 is stuck at step 5; in or after collective #33: rank 0, 2; #32: rank 1"});
  CaseWatch many = watch_of(64), none = watch_of(2);
  many.on_states(std::vector<RankState>(64, {.collectives = 7}), 1.0);
  expect_says(many.verdict(3.0)->reason, {"; in or after collective #7: 64 ranks"});
  EXPECT_EQ(none.verdict(3.0)->reason.find("collective"), std::string::npos) << "replicas of one process have none";
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
  CaseWatch watch("c", "ran", 3, kTimeout, false, 0);
  for (const int rank : {0, 2}) watch.on_line(rank, R"({"event":"ready","rank":0,"pid":1,"torch":"2"})", 0.5);
  const auto outcome = watch.verdict(2.5);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->never_started);
  expect_says(outcome->reason, {"2 of 3 ranks joined", "missing 1"});
}

TEST(CaseWatch, WhoWaitsForThoseThatNeverJoinedIsNotMissing) {
  CaseWatch watch("c", "ran", 3, kTimeout, false, 0), all("c", "ran", 2, kTimeout, false, 0);
  watch.on_states({{.beat = 1}, {.beat = 0}, {.beat = 1}}, 0.5);
  EXPECT_EQ(watch.verdict(2.5)->culprit, 1);
  expect_says(watch.verdict(2.5)->reason, {"2 of 3 ranks joined, missing 1"});
  all.on_states({{.beat = 1}, {.beat = 1}}, 0.5);
  expect_says(all.verdict(2.5)->reason, {"0 of 2 ranks joined, missing 0, 1"});
}

TEST(CaseWatch, NamesTheHostWhereThereAreSeveral) {
  const auto spread = [](bool ready) { return CaseWatch("c", "ran", 2, kTimeout, ready, 0, {}, {"left", "right"}); };
  CaseWatch dying = spread(true), failing = spread(true), hanging = spread(true), missing = spread(false), silent = spread(true);
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
  expect_says(watch.verdict(2)->reason, {"out of memory: rank 1 was ended by signal 9", "at step 7: killed by the control group's limit of 4096 bytes",
                                         "; rank 0 failed: Connection closed"});
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

class Here : public testing::Test {
 protected:
  Here() { fs::create_directories(root_); }
  ~Here() override { fs::remove_all(root_); }
  const fs::path root_ = fs::path(testing::TempDir()) / ("dpbench_launch_" + std::to_string(::getpid()));
};

// A tree of files as the kernel shows them of process 7.
class OomKillsTest : public Here {
 protected:
  void put(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::string after(const std::string& groups, const fs::path& counter, const std::string& text) const {
    put("proc/7/cgroup", groups);
    const OomKills kills(7, root_);
    EXPECT_EQ(kills.words(), "");
    put(counter, text);
    return kills.words();
  }
};

TEST_F(OomKillsTest, AreToldWithTheLimitOfTheGroup) {
  const fs::path group = "sys/fs/cgroup/a/b";
  put(group / "memory.events", "low 0\nhigh 0\nmax 3\noom 0\noom_kill 2\n");
  put(group / "memory.max", "4096\n");
  EXPECT_EQ(after("0::/a/b\n", group / "memory.events", "low 0\nmax 4\noom 1\noom_kill 3\n"), "killed by the control group's limit of 4096 bytes");
}

TEST_F(OomKillsTest, AreTheFirstVersionsWhereItHasTheMemory) {
  put("sys/fs/cgroup/memory.events", "oom_kill 5\n");
  const fs::path group = "sys/fs/cgroup/memory/job";
  put(group / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
  put(group / "memory.limit_in_bytes", "8192\n");
  EXPECT_EQ(after("5:cpu,memory:/job\n0::/\n", group / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
            "killed by the control group's limit of 8192 bytes");
}

TEST_F(OomKillsTest, AreCountedWhereTheGroupItselfCannotBeSeenAndByWhateverLimitIsAboveIt) {
  put("sys/fs/cgroup/box/memory.max", "1024\n");
  put("sys/fs/cgroup/box/inner/memory.max", "max\n");
  put("sys/fs/cgroup/box/inner/memory.events", "oom_kill 0\n");
  EXPECT_EQ(after("0::/box/inner/not/here\n", "sys/fs/cgroup/box/inner/memory.events", "oom_kill 1\n"),
            "killed by the control group's limit of 1024 bytes");
}

TEST_F(OomKillsTest, WithoutALimitAreTheMachines) {
  put("sys/fs/cgroup/memory/memory.oom_control", "oom_kill 0\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(after("4:memory:/\n", "sys/fs/cgroup/memory/memory.oom_control", "oom_kill 1\n"), "killed by the kernel, which had no memory left");
}

TEST_F(OomKillsTest, OfBeforeTheCaseAndWhatNobodyCountsAreNone) {
  EXPECT_EQ(OomKills(7, root_).words(), "");
  put("proc/7/cgroup", "0::/\n:\n\n4:memory\n");
  EXPECT_EQ(OomKills(7, root_).words(), "");
  put("sys/fs/cgroup/memory.events", "oom_kill 0\n");
  OomKills kills(7, root_);
  put("sys/fs/cgroup/memory.events", "oom_kill 1\n");
  EXPECT_NE(kills.words(), "");
  kills.forget();
  EXPECT_EQ(kills.words(), "");
}

class ScratchTest : public Here {};

TEST_F(ScratchTest, IsPrivateAndGoneAtTheEnd) {
  fs::path path;
  {
    const Scratch scratch({root_});
    path = scratch.path();
    struct stat state {};
    ASSERT_EQ(::stat(path.c_str(), &state), 0);
    EXPECT_EQ(state.st_mode & 0777, 0700u);
    std::ofstream(path / "store") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(ScratchTest, LeftoversOfDeadRunsGoAndThoseOfLiveOnesStay) {
  const fs::path dead = root_ / ("dpbench-" + std::to_string(::getuid()) + "-dead00");
  fs::create_directories(dead / "segments");
  std::ofstream(dead / "segments" / "one") << "x";
  fs::create_directories(root_ / "somebody-elses");
  const Scratch live({root_});
  const Scratch second({root_});
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(live.path()));
  EXPECT_TRUE(fs::exists(second.path()));
  EXPECT_TRUE(fs::exists(root_ / "somebody-elses"));
}

TEST_F(ScratchTest, OneThatWasNeverFinishedGoesToo) {
  const std::string unfinished = ".new-dpbench-" + std::to_string(::getuid()) + "-";
  const fs::path dead = root_ / (unfinished + "dead00"), live = root_ / (unfinished + "live00"), other = root_ / ".new-somebody-elses";
  for (const auto& path : {dead, live, other}) fs::create_directories(path);
  const Fd held(::open(live.c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  EXPECT_EQ(Scratch::clean(root_), 1);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(live));
  EXPECT_TRUE(fs::exists(other));
}

// Whoever starts takes away what is not locked yet: nobody may fail for that.
TEST_F(ScratchTest, ManyMayStartAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) EXPECT_NO_THROW({ EXPECT_TRUE(Scratch::is_private(Scratch({root_}).path())); });
    });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(ScratchTest, CleaningFollowsNoLink) {
  fs::create_directories(root_ / "treasure");
  fs::create_directory_symlink(root_ / "treasure", root_ / ("dpbench-" + std::to_string(::getuid()) + "-link00"));
  EXPECT_EQ(Scratch::clean(root_), 0);
  EXPECT_TRUE(fs::exists(root_ / "treasure"));
}

TEST_F(ScratchTest, IsToldFromWhatSomebodyElseMayName) {
  const Scratch scratch({root_});
  EXPECT_TRUE(Scratch::is_private(scratch.path()));
  const fs::path link = root_ / ("dpbench-" + std::to_string(::getuid()) + "-link00"), file = root_ / "dpbench-file";
  fs::create_directory_symlink(scratch.path(), link);
  std::ofstream(file) << "x";
  for (const fs::path& other :
       {root_, link, file, scratch.path() / "..", fs::path("/"), fs::path(""), fs::path("relative"),
        fs::path("/dev/shm"), scratch.path() / ".." / scratch.path().filename(), fs::path("/nowhere/dpbench-0-x")})
    EXPECT_FALSE(Scratch::is_private(other)) << other;
  fs::permissions(scratch.path(), fs::perms::group_exec, fs::perm_options::add);
  EXPECT_FALSE(Scratch::is_private(scratch.path())) << "others may go in";
}

TEST_F(ScratchTest, ForgetsAGroupButNotTheRest) {
  const Scratch scratch({root_});
  for (const char* name : {"store", "group1-cpu-segment", "rows"}) std::ofstream(scratch.path() / name) << "x";
  scratch.forget_group("group1-cpu");
  EXPECT_FALSE(fs::exists(scratch.path() / "store"));
  EXPECT_FALSE(fs::exists(scratch.path() / "group1-cpu-segment"));
  EXPECT_TRUE(fs::exists(scratch.path() / "rows"));
}

// Real processes: the fake worker does what --param fault says.
class Workers : public Here {
 protected:
  Workers() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }  // as dpbench is: what ranks leave behind becomes ours to end

  CaseSpec spec(int ranks, const std::string& fault, int rank = 0) {
    CaseSpec one;
    one.strategy = "ddp";
    one.workload = "toy";
    one.world = one.processes = ranks;
    one.backend = "shm";
    one.params = {{"fault", fault}, {"rank", std::to_string(rank)}};
    one.id = case_id(one);
    return one;
  }

  CaseOutcome run(const CaseSpec& one) {
    return launcher_.run(one, {{"do", "run"}, {"sampling", to_json(Sampling{})}, {"launch", 0}, {"check", false}},
                         "ran");
  }

  std::string reason(const std::string& fault) {
    const CaseOutcome outcome = run(spec(3, fault, 2));
    EXPECT_EQ(outcome.kind, Kind::failed) << fault;
    EXPECT_EQ(outcome.culprit, 2) << fault << ": " << outcome.reason;
    return outcome.reason;
  }

  void TearDown() override {
    launcher_.end_group();
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
    EXPECT_EQ(errno, ECHILD);
  }

  Signals signals_;
  Scratch scratch_{{root_}};
  Launcher launcher_{
      {.program = DPBENCH_FAKE_WORKER, .plugins = {}, .cpus = {0, 1}, .timeout_s = 4, .logs = root_ / "logs"},
      scratch_,
      signals_,
      [](const std::string&) {}};
};

TEST_F(Workers, RunManyCasesInOneGroup) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(spec(3, "none")).kind, Kind::ran);
  EXPECT_TRUE(launcher_.end_group().empty());
  EXPECT_FALSE(fs::exists(root_ / "logs" / "group2-cpu-x3-shm"));
  EXPECT_TRUE(fs::is_empty(root_ / "logs")) << "nothing was printed, so no log is kept";
}

TEST_F(Workers, DeathsAreNamedWithTheirCause) {
  expect_says(reason("kill"), {"rank 2", "signal 9", "about to die"});
  expect_says(reason("segv"), {"SIGSEGV"});
  expect_says(reason("abort"), {"SIGABRT"});
  expect_says(reason("exit0"), {"left early"});
  expect_says(reason("exit7"), {"exit code 7"});
  expect_says(reason("echo"), {"signal 9"});
  EXPECT_EQ(run(spec(3, "none")).kind, Kind::ran) << "a fresh group goes on";
}

TEST_F(Workers, HangsEndAfterTheTimeout) {
  expect_says(reason("stop"), {"rank 2 is stopped", "4 s"});
  expect_says(reason("init-hang"), {"2 of 3 ranks joined, missing 2"});
  EXPECT_EQ(run(spec(2, "hang")).kind, Kind::failed);
}

TEST_F(Workers, SlowOnesAreWaitedFor) { EXPECT_EQ(run(spec(2, "slow")).kind, Kind::ran); }

TEST_F(Workers, FloodsAndNonsenseEndTheCase) {
  expect_says(reason("flood"), {"64 MiB"});
  expect_says(reason("chatter"), {"64 MiB"});
  expect_says(reason("nonsense"), {"not the protocol"});
  expect_says(reason("other-case"), {"not the protocol"});
  for (const auto& entry : fs::recursive_directory_iterator(root_ / "logs"))
    EXPECT_TRUE(entry.is_directory() || entry.file_size() <= 64u << 20) << entry.path();
}

TEST_F(Workers, WhoDoesNotLeaveIsKilledAndSaid) {
  EXPECT_EQ(run(spec(2, "deaf", 1)).kind, Kind::ran);
  const auto complaints = launcher_.end_group();
  ASSERT_EQ(complaints.size(), 1u);
  expect_says(complaints[0], {"rank 1", "did not leave"});
}

TEST_F(Workers, ABadEndAfterGoodCasesIsSaid) {
  EXPECT_EQ(run(spec(2, "bad-end", 1)).kind, Kind::ran);
  const auto complaints = launcher_.end_group();
  ASSERT_EQ(complaints.size(), 1u);
  expect_says(complaints[0], {"rank 1", "exit code 5"});
}

TEST_F(Workers, ASignalInterruptsTheCase) {
  std::thread sender([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::kill(::getpid(), SIGTERM);
  });
  const CaseOutcome outcome = run(spec(2, "hang"));
  sender.join();
  EXPECT_EQ(outcome.kind, Kind::interrupted);
  EXPECT_EQ(outcome.signal, SIGTERM);
}

TEST_F(Workers, GroupsLeaveNoDescriptors) {
  const auto open = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()); };
  EXPECT_EQ(run(spec(3, "none")).kind, Kind::ran);
  launcher_.end_group();
  const auto before = open();
  for (const char* fault : {"kill", "exit7", "nonsense", "none", "orphan"}) {
    run(spec(3, fault, 1));
    launcher_.end_group();
    EXPECT_EQ(open(), before) << fault;
  }
}

TEST_F(Workers, EveryGroupHasANumberOfItsOwnThatNobodyCanGuess) {
  const WorkerSettings settings{
      .program = DPBENCH_FAKE_WORKER, .plugins = {}, .cpus = {}, .timeout_s = 4, .logs = root_ / "logs"};
  std::set<std::string> numbers;
  for (int i = 0; i < 3; ++i) {
    const WorkerGroup group({.name = "g" + std::to_string(i), .backend = "shm", .device = "cpu", .processes = 1}, settings,
                            scratch_);
    EXPECT_EQ(group.spec().nonce.size(), 32u) << "128 bits";
    EXPECT_EQ(group.spec().nonce.find_first_not_of("0123456789abcdef"), std::string::npos);
    numbers.insert(group.spec().nonce);
  }
  EXPECT_EQ(numbers.size(), 3u);
}

TEST_F(Workers, AProgramThatIsNotThereIsRefused) {
  Launcher launcher(
      {.program = "/nowhere/dpbench-worker", .plugins = {}, .cpus = {}, .timeout_s = 1, .logs = root_ / "logs"},
      scratch_, signals_, [](const std::string&) {});
  EXPECT_THROW(launcher.run(spec(1, "none"), {{"do", "run"}}, "ran"), UsageError);
}

}  // namespace
}  // namespace dpbench
