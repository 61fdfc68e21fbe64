// Ranks that die while a host forms its shared-memory group, and how the remaining ranks detect deaths afterwards.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/ranks/comm_ranks.h"
#include "tests/support/contains.h"

namespace dpbench::testing {
namespace {

using namespace std::chrono_literals;
using Backend = c10::intrusive_ptr<c10d::Backend>;
using Hook = std::function<void()>;

// A rank's store. It calls `announced` after the rank has published its shared memory under a key, and `heard` after
// the rank has waited for another rank's key.
class HookedStore : public c10d::PrefixStore {
 public:
  HookedStore(c10::intrusive_ptr<c10d::Store> store, Hook announced, Hook heard)
      : PrefixStore("hooked", std::move(store)), announced_(std::move(announced)), heard_(std::move(heard)) {}
  using PrefixStore::set;
  using PrefixStore::wait;
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    PrefixStore::set(key, value);
    if (key.ends_with("shm-segment")) announced_();
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    PrefixStore::wait(keys, timeout);
    if (keys.at(0).ends_with("shm-segment")) heard_();
  }

 private:
  Hook announced_, heard_;
};

void install_hooks(BackendSetup& setup, Hook announced, Hook heard) {
  setup.store = c10::make_intrusive<HookedStore>(setup.store, std::move(announced), std::move(heard));
}

// Waits up to 10 s for the process to exit. After the exit its descriptors are closed.
void wait_for_exit(pid_t process) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (fd < 0) return;  // the process has already been reaped, so it has exited
  pollfd end{.fd = fd, .events = POLLIN, .revents = 0};
  poll(&end, 1, 10000);
  close(fd);
}

std::vector<std::string> errors_after_killing(int victim, int world, int per_host) {
  const SharedNumbers<pid_t> processes;
  const auto kill_self = [&] {
    processes[victim] = getpid();
    raise(SIGKILL);
  };
  const auto wait_for_victim = [&] {
    // The killed rank publishes its store key before its pid, so the pid may be missing for a moment.
    while (processes[victim] == 0) std::this_thread::sleep_for(1ms);
    wait_for_exit(processes[victim]);
  };
  return run_ranks({.backend = "shm",
                    .as = As::processes,
                    .world = world,
                    .per_host = per_host,
                    .adjust =
                        [&](BackendSetup& setup) {
                          if (setup.rank - setup.local_rank == victim)
                            install_hooks(setup, kill_self, wait_for_victim);
                          else
                            install_hooks(setup, [] {}, [] {});
                        }},
                   [](const Backend&, int) {});
}

TEST(Join, ARankThatDiesAfterPublishingItsSharedMemoryIsNamed) {
  const auto errors = errors_after_killing(/*victim=*/0, /*world=*/3, /*per_host=*/0);
  EXPECT_EQ(errors[0], "ended by signal 9");
  for (int r : {1, 2}) EXPECT_TRUE(mentions(errors[r], {c10::str("rank ", r), "rank 0 (pid "}));
}

TEST(Join, ARankThatDiesWhileJoiningIsNamedByItsGlobalNumberOnAllHosts) {
  const auto errors = errors_after_killing(/*victim=*/2, /*world=*/4, /*per_host=*/2);
  EXPECT_EQ(errors[2], "ended by signal 9");
  for (int r : {0, 3}) EXPECT_TRUE(mentions(errors[r], {"rank 3", "rank 2 (pid "})) << "rank " << r;
}

// An exception that sets `caught` when it is destroyed. By then, stack unwinding has destroyed the half-built group of
// ranks.
class GiveUp : public std::runtime_error {
 public:
  explicit GiveUp(std::atomic<bool>& caught)
      : std::runtime_error("gives up"), caught_(&caught, [](auto* it) { *it = true; }) {}

 private:
  std::shared_ptr<std::atomic<bool>> caught_;
};

TEST(Join, ARankThatThrowsWhileJoiningIsNamed) {
  std::atomic<bool> unwound{false};
  const auto errors = run_ranks({.backend = "threads",
                                 .as = As::threads,
                                 .world = 2,
                                 .adjust =
                                     [&](BackendSetup& setup) {
                                       install_hooks(
                                           setup, [&] { throw GiveUp(unwound); },
                                           [&] {
                                             while (!unwound) std::this_thread::sleep_for(1ms);
                                           });
                                     }},
                                [](const Backend&, int) {});
  EXPECT_EQ(errors[0], "gives up");
  EXPECT_TRUE(mentions(errors[1], {"rank 0", "thread"}));
}

// Returns the number of open pidfds (process descriptors) without opening another descriptor. Depending on the kernel,
// their links read anon_inode:[pidfd] or pidfd:[..].
int open_pidfds() {
  int found = 0;
  for (int fd = 0; fd < 256; ++fd) {
    char name[64];
    const ssize_t size = readlink(c10::str("/proc/self/fd/", fd).c_str(), name, sizeof name);
    found += size > 0 && says(std::string(name, static_cast<size_t>(size)), "pidfd");
  }
  return found;
}

TEST(Join, EachRankWatchesTheProcessesOfAllOtherRanksAfterJoining) {
  expect_ranks_succeed({.backend = "shm", .as = As::processes, .world = 4}, [](const Backend& backend, int) {
    if (const int found = open_pidfds(); found != 3) throw std::runtime_error(c10::str("watches ", found, " peers"));
    // no rank may leave before all have counted, because a rank that has left is no longer watched
    backend->barrier({})->wait();
  });
}

void allow_descriptors(rlim_t count) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min(limit.rlim_max, count);
  setrlimit(RLIMIT_NOFILE, &limit);
}

void take_all_descriptors() {
  allow_descriptors(128);
  while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
  }
}

bool has_mapped_the_group() {
  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), {});
  return says(text, "dpbench-group");
}

// After publishing its memory, rank 0 waits until the other ranks have mapped it and have no free descriptor. Without a
// pidfd, they detect the death of rank 0 only when it has been reaped. Rank 0 is the first child that the test reaps.
TEST(Join, TheDeathOfARankIsDetectedEvenWithoutFreeFileDescriptors) {
  const SharedNumbers<int> exhausted;
  Team team{.backend = "shm", .as = As::processes, .world = 3, .timeout = 6s};
  team.adjust = [&](BackendSetup& setup) {
    const auto wait_for_the_others = [&] {
      for (int ms = 0; ms < 5000 && (!exhausted[1] || !exhausted[2]); ++ms) std::this_thread::sleep_for(1ms);
    };
    install_hooks(setup, wait_for_the_others, [] {});
    if (setup.rank == 0) return;
    std::thread([&, rank = setup.rank] {
      while (!has_mapped_the_group()) std::this_thread::sleep_for(1ms);
      take_all_descriptors();
      exhausted[rank] = 1;
    }).detach();
  };
  const auto errors = run_ranks(team, [](const Backend& backend, int rank) {
    if (rank == 0) raise(SIGKILL);
    if (open_pidfds() > 1) throw std::runtime_error("rank 0's pidfd was opened");
    std::vector<at::Tensor> list{at::ones(10)};
    const auto work = backend->allreduce(list, {});
    while (!work->isCompleted()) std::this_thread::sleep_for(1ms);
    allow_descriptors(256);  // the rank's store, a FileStore, needs a free descriptor when it closes
    work->wait();
  });
  for (int r : {1, 2}) EXPECT_TRUE(mentions(errors[r], {"rank 0 (pid ", "died"}));
}

}  // namespace
}  // namespace dpbench::testing
