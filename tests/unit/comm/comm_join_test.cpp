// Who is lost while the ranks of a host form their group, and how the others watch each other from then on.
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

#include "tests/unit/comm/comm_ranks.h"

namespace dpbench::testing {
namespace {

using namespace std::chrono_literals;
using Backend = c10::intrusive_ptr<c10d::Backend>;
using Hook = std::function<void()>;

// The store, with something to do for the rank that has just announced its memory, or for one that has heard of it.
class Hooked : public c10d::PrefixStore {
 public:
  Hooked(c10::intrusive_ptr<c10d::Store> store, Hook announced, Hook heard)
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

void hook(BackendSetup& setup, Hook announced, Hook heard) {
  setup.store = c10::make_intrusive<Hooked>(setup.store, std::move(announced), std::move(heard));
}

// Its descriptors are closed by then.
void wait_for_the_end_of(pid_t process) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (fd < 0) return;  // reaped already
  pollfd end{.fd = fd, .events = POLLIN, .revents = 0};
  poll(&end, 1, 10000);
  close(fd);
}

std::vector<std::string> lose_after_the_announcement(int victim, int world, int per_host) {
  const SharedNumbers<pid_t> processes;
  const auto strike = [&] {
    processes[victim] = getpid();
    raise(SIGKILL);
  };
  const auto wait_for_it = [&] {
    while (processes[victim] == 0) std::this_thread::sleep_for(1ms);  // ahead of it is the store's word
    wait_for_the_end_of(processes[victim]);
  };
  return run_ranks({.backend = "shm",
                    .as = As::processes,
                    .world = world,
                    .per_host = per_host,
                    .adjust =
                        [&](BackendSetup& setup) {
                          if (setup.rank - setup.local_rank == victim)
                            hook(setup, strike, wait_for_it);
                          else
                            hook(setup, [] {}, [] {});
                        }},
                   [](const Backend&, int) {});
}

TEST(Join, WhoFindsTheAnnouncedMemoryGoneNamesTheRank) {
  const auto thrown = lose_after_the_announcement(/*victim=*/0, /*world=*/3, /*per_host=*/0);
  EXPECT_EQ(thrown[0], "ended by signal 9");
  for (int r : {1, 2})
    EXPECT_TRUE(says(thrown[r], c10::str("rank ", r, " cannot join rank 0 (pid ")) &&
                says(thrown[r], "may have died or given up"))
        << thrown[r];
}

TEST(Join, AcrossHostsItIsNamedByTheNumberThatAllKnow) {
  const auto thrown = lose_after_the_announcement(/*victim=*/2, /*world=*/4, /*per_host=*/2);
  EXPECT_EQ(thrown[2], "ended by signal 9");
  for (int r : {0, 3})
    EXPECT_TRUE(says(thrown[r], "rank 3 cannot join rank 2 (pid ")) << "rank " << r << " says: " << thrown[r];
}

// It goes when it is caught, and what was half made has gone by then.
class GivesUp : public std::runtime_error {
 public:
  explicit GivesUp(std::atomic<bool>& caught)
      : std::runtime_error("gives up"), caught_(&caught, [](auto* it) { *it = true; }) {}

 private:
  std::shared_ptr<std::atomic<bool>> caught_;
};

TEST(Join, AThreadThatGaveUpIsNamed) {
  std::atomic<bool> has_let_go{false};
  const auto thrown = run_ranks({.backend = "threads",
                                 .as = As::threads,
                                 .world = 2,
                                 .adjust =
                                     [&](BackendSetup& setup) {
                                       hook(
                                           setup, [&] { throw GivesUp(has_let_go); },
                                           [&] {
                                             while (!has_let_go) std::this_thread::sleep_for(1ms);
                                           });
                                     }},
                                [](const Backend&, int) {});
  EXPECT_EQ(thrown[0], "gives up");
  EXPECT_TRUE(says(thrown[1], "rank 0 is no thread of this process, or has given up")) << thrown[1];
}

// Told without opening anything. Kernels differ in the name, which begins as anon_inode:[pidfd] or pidfd:[..].
int open_pidfds() {
  int found = 0;
  for (int fd = 0; fd < 256; ++fd) {
    char name[64];
    const ssize_t size = readlink(c10::str("/proc/self/fd/", fd).c_str(), name, sizeof name);
    found += size > 0 && says(std::string(name, static_cast<size_t>(size)), "pidfd");
  }
  return found;
}

TEST(Join, EachPeerIsWatchedFromThenOn) {
  expect_ranks_succeed({.backend = "shm", .as = As::processes, .world = 4}, [](const Backend&, int) {
    if (const int found = open_pidfds(); found != 3) throw std::runtime_error(c10::str("watches ", found, " peers"));
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

// Rank 0 comes when the others, which have mapped its memory, have no descriptor left. It is the first to be reaped,
// which is what they then wait for.
TEST(Join, WithoutAFreeDescriptorADeathIsSeenAllTheSame) {
  const SharedNumbers<int> without;
  Team team{.backend = "shm", .as = As::processes, .world = 3, .timeout = 6s};
  team.adjust = [&](BackendSetup& setup) {
    const auto wait_for_the_others = [&] {
      for (int ms = 0; ms < 5000 && (!without[1] || !without[2]); ++ms) std::this_thread::sleep_for(1ms);
    };
    hook(setup, wait_for_the_others, [] {});
    if (setup.rank == 0) return;
    std::thread([&, rank = setup.rank] {
      while (!has_mapped_the_group()) std::this_thread::sleep_for(1ms);
      take_all_descriptors();
      without[rank] = 1;
    }).detach();
  };
  const auto thrown = run_ranks(team, [](const Backend& backend, int rank) {
    if (rank == 0) raise(SIGKILL);
    if (open_pidfds() > 1) throw std::runtime_error("it had a descriptor for rank 0");
    std::vector<at::Tensor> list{at::ones(10)};
    const auto work = backend->allreduce(list, {});
    while (!work->isCompleted()) std::this_thread::sleep_for(1ms);
    allow_descriptors(256);  // the store of files wants one when it goes
    work->wait();
  });
  for (int r : {1, 2}) EXPECT_TRUE(says(thrown[r], "rank 0 (pid ") && says(thrown[r], "died while")) << thrown[r];
}

}  // namespace
}  // namespace dpbench::testing
