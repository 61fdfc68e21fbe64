// What a worker that misbehaves can do: nothing.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <set>
#include <thread>

#include "harness/front/run/launcher.h"
#include "tests/unit/front/launch_parts.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;
using Kind = CaseOutcome::Kind;

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
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
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
    const WorkerGroup group({.name = "g" + std::to_string(i), .backend = "shm", .device = Device::cpu, .processes = 1},
                            settings, scratch_);
    EXPECT_EQ(group.spec().nonce.size(), 32u) << "128 bits";
    EXPECT_EQ(group.spec().nonce.find_first_not_of("0123456789abcdef"), std::string::npos);
    numbers.insert(group.spec().nonce);
  }
  EXPECT_EQ(numbers.size(), 3u);
}

TEST_F(Workers, AProgramThatIsNotThereIsRefused) {
  Launcher launcher(
      {.program = "/nowhere/dpbench-worker", .plugins = {}, .cpus = {}, .timeout_s = 1, .logs = root_ / "logs"},
      signals_, Event::ran, [](const std::string&) {});
  EXPECT_THROW(launcher.run(spec(1, "none"), {{"do", "run"}}), UsageError);
}

}  // namespace
}  // namespace dpbench
