// Who is lost while the ranks of a host form their group, and how the others watch each other from then on.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <ATen/ATen.h>

#include <csignal>
#include <thread>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/comm_ranks.h"

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
  return run_ranks({.backend = "shm", .as = As::processes, .world = world, .per_host = per_host,
                    .adjust = [&](BackendSetup& setup) {
                      if (setup.rank - setup.local_rank == victim) hook(setup, strike, wait_for_it);
                      else hook(setup, [] {}, [] {});
                    }},
                   [](const Backend&, int) {});
}

TEST(Join, WhoFindsTheAnnouncedMemoryGoneNamesTheRank) {
  const auto thrown = lose_after_the_announcement(/*victim=*/0, /*world=*/3, /*per_host=*/0);
  EXPECT_EQ(thrown[0], "ended by signal 9");
  for (int r : {1, 2})
    EXPECT_TRUE(says(thrown[r], c10::str("rank ", r, " cannot join rank 0 (pid ")) && says(thrown[r], "may have died or given up")) << thrown[r];
}

TEST(Join, AcrossHostsItIsNamedByTheNumberThatAllKnow) {
  const auto thrown = lose_after_the_announcement(/*victim=*/2, /*world=*/4, /*per_host=*/2);
  EXPECT_EQ(thrown[2], "ended by signal 9");
  for (int r : {0, 3}) EXPECT_TRUE(says(thrown[r], "rank 3 cannot join rank 2 (pid ")) << "rank " << r << " says: " << thrown[r];
}

TEST(Join, AThreadThatGaveUpIsNamed) {
  std::atomic<bool> announced{false};
  const auto thrown = run_ranks({.backend = "threads", .as = As::threads, .world = 2,
                                 .adjust = [&](BackendSetup& setup) {
                                   hook(setup,
                                        [&] {
                                          announced = true;
                                          throw std::runtime_error("gives up");
                                        },
                                        [&] {
                                          while (!announced) std::this_thread::sleep_for(1ms);
                                          std::this_thread::sleep_for(200ms);  // until it has let go
                                        });
                                 }},
                                [](const Backend&, int) {});
  EXPECT_EQ(thrown[0], "gives up");
  EXPECT_TRUE(says(thrown[1], "rank 0 is no thread of this process, or has given up")) << thrown[1];
}

}  // namespace
}  // namespace dpbench::testing
