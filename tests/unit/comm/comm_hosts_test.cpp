// Collectives across hosts: timeouts, the ranks that errors name, and the keys left in the c10d store.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "strategies/comm/hosts/side_channel.h"
#include "tests/ranks/comm_ranks.h"
#include "tests/support/contains.h"

namespace dpbench::testing {
namespace {

using namespace std::chrono_literals;
using Backend = c10::intrusive_ptr<c10d::Backend>;
using Clock = std::chrono::steady_clock;

enum class StoreMode { answers, keeps_waiting, throws };
using SharedStoreMode = std::shared_ptr<std::atomic<StoreMode>>;

SharedStoreMode new_store_mode() { return std::make_shared<std::atomic<StoreMode>>(StoreMode::answers); }

class FaultyStore : public c10d::PrefixStore {
 public:
  FaultyStore(c10::intrusive_ptr<c10d::Store> store, SharedStoreMode mode)
      : PrefixStore("faulty", std::move(store)), mode_(std::move(mode)) {}
  using PrefixStore::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    apply_mode();
    PrefixStore::set(key, value);
  }
  bool check(const std::vector<std::string>& keys) override {
    apply_mode();
    return PrefixStore::check(keys);
  }

 private:
  void apply_mode() const {
    while (*mode_ == StoreMode::keeps_waiting) std::this_thread::sleep_for(1ms);
    if (*mode_ == StoreMode::throws) throw std::runtime_error("this store is gone");
  }
  SharedStoreMode mode_;
};

void wait_until(const std::function<bool()>& condition) {
  for (int ms = 0; ms < 10000 && !condition(); ++ms) std::this_thread::sleep_for(1ms);
}

TEST(FlagsInTheRendezvousStore, CanBeReadAgainAfterTheStoreDidNotAnswerForAWhile) {
  const SharedStoreMode mode = new_store_mode();
  SideChannel side_channel(c10::make_intrusive<FaultyStore>(c10::make_intrusive<c10d::HashStore>(), mode));
  EXPECT_TRUE(side_channel.set_flag("here"));
  *mode = StoreMode::keeps_waiting;
  EXPECT_FALSE(side_channel.flag_is_set("here").has_value());
  const auto begin = Clock::now();
  EXPECT_FALSE(side_channel.flag_is_set("here").has_value());
  EXPECT_FALSE(side_channel.set_flag("there"));
  EXPECT_LT(Clock::now() - begin, 1s) << "each query waits the full limit";
  *mode = StoreMode::answers;
  wait_until([&] { return side_channel.flag_is_set("here").has_value(); });
  EXPECT_TRUE(side_channel.flag_is_set("here").value_or(false));
  EXPECT_FALSE(side_channel.flag_is_set("there").value_or(true));
}

TEST(FlagsInTheRendezvousStore, CanBeSetAndReadAfterTheStoreThrewAnException) {
  const SharedStoreMode mode = new_store_mode();
  SideChannel side_channel(c10::make_intrusive<FaultyStore>(c10::make_intrusive<c10d::HashStore>(), mode));
  *mode = StoreMode::throws;
  EXPECT_FALSE(side_channel.set_flag("here"));
  *mode = StoreMode::answers;
  EXPECT_TRUE(side_channel.set_flag("here"));
  EXPECT_TRUE(side_channel.flag_is_set("here").value_or(false));
}

void allreduce_within(const Backend& backend, std::chrono::milliseconds limit) {
  std::vector<at::Tensor> list{at::ones(10)};
  c10d::AllreduceOptions options;
  options.timeout = limit;
  backend->allreduce(list, options)->wait();
}

TEST(Hosts, AFailureOfTheRendezvousStoreIsNotBlamedOnARankOfAnotherHost) {
  const SharedStoreMode modes[] = {new_store_mode(), new_store_mode()};
  std::atomic<bool> over{false};
  Team team{.backend = "threads", .as = As::threads, .world = 2, .per_host = 1};
  team.adjust = [&](BackendSetup& setup) {
    setup.store = c10::make_intrusive<FaultyStore>(setup.store, modes[setup.rank]);
  };
  const auto errors = run_ranks(team, [&](const Backend& backend, int rank) {
    if (rank == 1) return wait_until([&] { return over.load(); });
    *modes[0] = StoreMode::throws;
    try {
      allreduce_within(backend, 200ms);
    } catch (const std::exception&) {
      over = true;
      throw;
    }
  });
  EXPECT_TRUE(mentions(errors[0], {"rank 0", "hosts", "#2 allreduce"}));
  EXPECT_FALSE(says(errors[0], "rank 1")) << errors[0];
}

// Rank 3 never calls the allreduce. Rank 2, the leader (first rank) of the same host, calls it late. So rank 0 times
// out long before rank 2 can report that rank 3 is missing.
TEST(Hosts, ACollectiveEndsSoonAfterItsTimeoutEvenIfAnotherHostCalledItLate) {
  constexpr auto limit = 4000ms, delay = 3000ms;
  std::atomic<int> over{0};
  std::vector<Clock::duration> took(4);
  const auto errors = run_ranks({.backend = "threads", .as = As::threads, .world = 4, .per_host = 2},
                                [&](const Backend& backend, int rank) {
                                  if (rank == 3) return wait_until([&] { return over == 3; });
                                  const auto begin = Clock::now();
                                  if (rank == 2) std::this_thread::sleep_for(delay);
                                  try {
                                    allreduce_within(backend, limit);
                                  } catch (const std::exception&) {
                                    took[rank] = Clock::now() - begin;
                                    ++over;
                                    throw;
                                  }
                                });
  for (int r : {0, 1, 2}) {
    EXPECT_TRUE(mentions(errors[r], {"rank 0", "rank 2", "#2 allreduce"})) << "rank " << r;
    EXPECT_GE(took[r], limit);
    EXPECT_LT(took[r] / 1ms, (limit + 1s + delay + limit) / 2 / 1ms)
        << "rank 2's own report came after " << (delay + limit) / 1ms << " ms";
  }
}

TEST(Hosts, ARejectedCoalescedCollectiveStartsNothingAndTheGroupStaysUsable) {
  using Tensors = std::vector<at::Tensor>;
  expect_ranks_succeed({.backend = "threads", .as = As::threads, .world = 2, .per_host = 1},
                       [&](const Backend& backend, int rank) {
                         const auto rejected = [&](Tensors outputs, Tensors inputs, const std::string& reason) {
                           try {
                             backend->allgather_into_tensor_coalesced(outputs, inputs, {})->wait();
                           } catch (const std::exception& error) {
                             if (says(error.what(), reason)) return;
                             throw;
                           }
                           throw std::logic_error(reason + " was not reported");
                         };
                         if (rank == 0) {
                           rejected({}, {}, "at least one tensor");
                           rejected({at::zeros(2)}, {}, "1 outputs for 0 inputs");
                           rejected({at::zeros(2), at::zeros(5)}, {at::ones(1), at::ones(2)}, "does not hold 2 shares");
                         }
                         Tensors sums{at::ones(3), at::ones(2)};
                         backend->allreduce_coalesced(sums, {})->wait();
                         for (const auto& sum : sums) require_equal(sum, at::full_like(sum, 2.0), "afterwards");
                       });
}

TEST(Hosts, StoreKeysOfFinishedCollectivesAreRemoved) {
  c10::intrusive_ptr<c10d::Store> store;
  Team team{.backend = "threads", .as = As::threads, .world = 2, .per_host = 1};
  team.adjust = [&](BackendSetup& setup) {
    if (setup.rank == 0) store = setup.store;
  };
  expect_ranks_succeed(team, [&](const Backend& backend, int rank) {
    int64_t at_first = 0;
    for (int call = 0; call < 12; ++call) {
      // Rank 1 starts the allreduce late, because rank 0 writes keys to the store only after it has waited for 200 ms.
      if (rank == 1) std::this_thread::sleep_for(250ms);
      allreduce_within(backend, 20s);
      if (rank == 0 && call == 0) at_first = store->getNumKeys();
    }
    // An allreduce writes at most two store keys per rank, so four keys may be left. If keys were not removed, the
    // eleven later allreduces would add at least one key each.
    if (rank == 0 && store->getNumKeys() > at_first + 4)
      throw std::runtime_error(c10::str(store->getNumKeys() - at_first, " more keys after eleven more calls"));
  });
}

}  // namespace
}  // namespace dpbench::testing
