// The launcher with real worker processes that crash, hang or send invalid messages.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <set>
#include <thread>

#include "harness/front/run/launcher.h"
#include "tests/unit/front/launch_parts.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;
using Kind = CaseOutcome::Kind;

// The tests run a fake worker in place of dpbench's worker program. It injects the fault that --param fault names.
class Workers : public TempDirTest {
 protected:
  // Orphaned child processes of ranks become children of the test process, as they become children of dpbench.
  Workers() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

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
    return launcher_.run(one, {{"do", "run"}, {"sampling", to_json(Sampling{})}, {"launch", 0}, {"check", false}});
  }

  std::string reason(const std::string& fault) {
    const CaseOutcome outcome = run(spec(3, fault, 2));
    EXPECT_EQ(outcome.kind, Kind::failed) << fault;
    EXPECT_EQ(outcome.culprit, 2) << fault << ": " << outcome.reason;
    return outcome.reason;
  }

  void TearDown() override {
    launcher_.end_group();
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is still running";
    EXPECT_EQ(errno, ECHILD);
  }

  Signals signals_;
  Scratch scratch_{{root_}};
  Launcher launcher_{
      {.program = DPBENCH_FAKE_WORKER, .plugins = {}, .cpus = {0, 1}, .timeout_s = 4, .logs = root_ / "logs"},
      signals_,
      Event::ran,
      [](const std::string&) {}};
};

TEST_F(Workers, RunManyCasesWithoutARestart) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(spec(3, "none")).kind, Kind::ran);
  EXPECT_TRUE(launcher_.end_group().empty());
  EXPECT_FALSE(fs::exists(root_ / "logs" / "group2-cpu-x3-shm"));
  EXPECT_TRUE(fs::is_empty(root_ / "logs")) << "empty logs are removed";
}

TEST_F(Workers, ReportTheRankAndCauseOfADeath) {
  expect_contains(reason("kill"), {"rank 2", "signal 9", "about to die"});
  expect_contains(reason("segv"), {"SIGSEGV"});
  expect_contains(reason("abort"), {"SIGABRT"});
  expect_contains(reason("exit0"), {"exit code 0"});
  expect_contains(reason("exit7"), {"exit code 7"});
  expect_contains(reason("echo"), {"signal 9"});
  EXPECT_EQ(run(spec(3, "none")).kind, Kind::ran) << "a fresh group must run";
}

TEST_F(Workers, AreEndedAfterTheTimeoutWhenTheyHang) {
  expect_contains(reason("stop"), {"rank 2", "stopped", "4 s"});
  expect_contains(reason("init-hang"), {"2 of 3", "missing 2"});
  EXPECT_EQ(run(spec(2, "hang")).kind, Kind::failed);
}

TEST_F(Workers, ThatAreSlowAreNotEndedByTheTimeout) { EXPECT_EQ(run(spec(2, "slow")).kind, Kind::ran); }

TEST_F(Workers, FailTheCaseIfTheyPrintMoreThan64MebibytesOrSendInvalidMessages) {
  expect_contains(reason("flood"), {"64 MiB"});
  expect_contains(reason("chatter"), {"64 MiB"});
  expect_contains(reason("nonsense"), {"protocol"});
  expect_contains(reason("other-case"), {"protocol"});
  for (const auto& entry : fs::recursive_directory_iterator(root_ / "logs"))
    EXPECT_TRUE(entry.is_directory() || entry.file_size() <= 64u << 20) << entry.path();
}

TEST_F(Workers, AreKilledAndReportedWhenTheyDoNotExit) {
  EXPECT_EQ(run(spec(2, "deaf", 1)).kind, Kind::ran);
  const auto complaints = launcher_.end_group();
  ASSERT_EQ(complaints.size(), 1u);
  expect_contains(complaints[0], {"rank 1"});
}

TEST_F(Workers, ReportANonzeroExitCodeAfterSuccessfulCases) {
  EXPECT_EQ(run(spec(2, "bad-end", 1)).kind, Kind::ran);
  const auto complaints = launcher_.end_group();
  ASSERT_EQ(complaints.size(), 1u);
  expect_contains(complaints[0], {"rank 1", "exit code 5"});
}

TEST_F(Workers, AreInterruptedWhenTheLauncherReceivesSigterm) {
  std::thread sender([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::kill(::getpid(), SIGTERM);
  });
  const CaseOutcome outcome = run(spec(2, "hang"));
  sender.join();
  EXPECT_EQ(outcome.kind, Kind::interrupted);
  EXPECT_EQ(outcome.signal, SIGTERM);
}

TEST_F(Workers, LeakNoFileDescriptors) {
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

TEST_F(Workers, GetADifferentNonceOf128BitsPerGroup) {
  const WorkerSettings settings{
      .program = DPBENCH_FAKE_WORKER, .plugins = {}, .cpus = {}, .timeout_s = 4, .logs = root_ / "logs"};
  std::set<std::string> nonces;
  for (int i = 0; i < 3; ++i) {
    const WorkerGroup group({{.backend = "shm"}, "g" + std::to_string(i)}, settings, scratch_);
    EXPECT_EQ(group.spec().nonce.size(), 32u) << "128 bits";
    EXPECT_EQ(group.spec().nonce.find_first_not_of("0123456789abcdef"), std::string::npos);
    nonces.insert(group.spec().nonce);
  }
  EXPECT_EQ(nonces.size(), 3u);
}

TEST_F(Workers, HaveTheirPrintedLinesPassedToTheOutputCallback) {
  std::vector<std::string> heard;
  Launcher launcher({.program = DPBENCH_FAKE_WORKER,
                     .plugins = {},
                     .cpus = {},
                     .timeout_s = 4,
                     .logs = root_ / "talk",
                     .output = [&](const std::string& line) { heard.push_back(line); }},
                    signals_, Event::ran, [](const std::string&) {});
  const auto talk = [&](int ranks) {
    heard.clear();
    launcher.run(spec(ranks, "talk", ranks - 1), {{"do", "run"}, {"check", false}});
    launcher.end_group();
    return heard;
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(talk(2), (Lines{"rank 1: one", "rank 1: two", "rank 1: the \x1B[31mrest"}));
  EXPECT_EQ(talk(1), (Lines{"one", "two", "the \x1B[31mrest"}));
}

TEST_F(Workers, FailWithAUsageErrorIfTheirProgramIsMissing) {
  Launcher launcher(
      {.program = "/nowhere/dpbench-worker", .plugins = {}, .cpus = {}, .timeout_s = 1, .logs = root_ / "logs"},
      signals_, Event::ran, [](const std::string&) {});
  EXPECT_THROW(launcher.run(spec(1, "none"), {{"do", "run"}}), UsageError);
}

}  // namespace
}  // namespace dpbench
