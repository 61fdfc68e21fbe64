// How long hosts wait for each other, whom they blame, and what they leave in the store.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "strategies/comm/hosts/side_channel.h"
#include "tests/unit/comm/comm_ranks.h"

namespace dpbench::testing {
namespace {

using namespace std::chrono_literals;
using Backend = c10::intrusive_ptr<c10d::Backend>;
using Clock = std::chrono::steady_clock;

enum class Mood { answers, keeps_waiting, throws };
using SharedMood = std::shared_ptr<std::atomic<Mood>>;

SharedMood new_mood() { return std::make_shared<std::atomic<Mood>>(Mood::answers); }

class Moody : public c10d::PrefixStore {
 public:
  Moody(c10::intrusive_ptr<c10d::Store> store, SharedMood mood)
      : PrefixStore("moody", std::move(store)), mood_(std::move(mood)) {}
  using PrefixStore::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    obey();
    PrefixStore::set(key, value);
  }
  bool check(const std::vector<std::string>& keys) override {
    obey();
    return PrefixStore::check(keys);
  }

 private:
  void obey() const {
    while (*mood_ == Mood::keeps_waiting) std::this_thread::sleep_for(1ms);
    if (*mood_ == Mood::throws) throw std::runtime_error("this store is gone");
  }
  SharedMood mood_;
};

void wait_until(const std::function<bool()>& so) {
  for (int ms = 0; ms < 10000 && !so(); ++ms) std::this_thread::sleep_for(1ms);
}

TEST(SideChannel, AreHeardAgainWhenTheStoreAnswersAgain) {
  const SharedMood mood = new_mood();
  SideChannel side_channel(c10::make_intrusive<Moody>(c10::make_intrusive<c10d::HashStore>(), mood));
  EXPECT_TRUE(side_channel.note("here"));
  *mood = Mood::keeps_waiting;
  EXPECT_FALSE(side_channel.is_noted("here").has_value());
  const auto begin = Clock::now();
  EXPECT_FALSE(side_channel.is_noted("here").has_value());
  EXPECT_FALSE(side_channel.note("there"));
  EXPECT_LT(Clock::now() - begin, 1s) << "each question waits anew";
  *mood = Mood::answers;
  wait_until([&] { return side_channel.is_noted("here").has_value(); });
  EXPECT_TRUE(side_channel.is_noted("here").value_or(false));
  EXPECT_FALSE(side_channel.is_noted("there").value_or(true));
}

TEST(SideChannel, AStoreThatThrowsIsAskedAgain) {
  const SharedMood mood = new_mood();
  SideChannel side_channel(c10::make_intrusive<Moody>(c10::make_intrusive<c10d::HashStore>(), mood));
  *mood = Mood::throws;
  EXPECT_FALSE(side_channel.note("here"));
  *mood = Mood::answers;
  EXPECT_TRUE(side_channel.note("here"));
  EXPECT_TRUE(side_channel.is_noted("here").value_or(false));
}

void allreduce_within(const Backend& backend, std::chrono::milliseconds limit) {
  std::vector<at::Tensor> list{at::ones(10)};
  c10d::AllreduceOptions options;
  options.timeout = limit;
  backend->allreduce(list, options)->wait();
}

TEST(Hosts, ThatWereNotAskedAreNotBlamed) {
  const SharedMood moods[] = {new_mood(), new_mood()};
  std::atomic<bool> over{false};
  Team team{.backend = "threads", .as = As::threads, .world = 2, .per_host = 1};
  team.adjust = [&](BackendSetup& setup) { setup.store = c10::make_intrusive<Moody>(setup.store, moods[setup.rank]); };
  const auto thrown = run_ranks(team, [&](const Backend& backend, int rank) {
    if (rank == 1) return wait_until([&] { return over.load(); });
    *moods[0] = Mood::throws;
    try {
      allreduce_within(backend, 200ms);
    } catch (const std::exception&) {
      over = true;
      throw;
    }
  });
  EXPECT_TRUE(says(thrown[0], "rank 0 waited in vain for the other hosts in #2 allreduce")) << thrown[0];
}

// Rank 3 never calls. Its host began late, so that rank 0's time is up long before its leader can say so.
TEST(Hosts, EndACallSoonAfterItsLimitAlsoWhereAnotherBeganLate) {
  constexpr auto limit = 4000ms, late = 3000ms;
  std::atomic<int> over{0};
  std::vector<Clock::duration> took(4);
  const auto thrown = run_ranks({.backend = "threads", .as = As::threads, .world = 4, .per_host = 2},
                                [&](const Backend& backend, int rank) {
                                  if (rank == 3) return wait_until([&] { return over == 3; });
                                  const auto begin = Clock::now();
                                  if (rank == 2) std::this_thread::sleep_for(late);
                                  try {
                                    allreduce_within(backend, limit);
                                  } catch (const std::exception&) {
                                    took[rank] = Clock::now() - begin;
                                    ++over;
                                    throw;
                                  }
                                });
  for (int r : {0, 1, 2}) {
    EXPECT_TRUE(says(thrown[r], "rank 0 waited in vain for ranks of the host of rank 2 in #2 allreduce"))
        << "rank " << r << " says: " << thrown[r];
    EXPECT_GE(took[r], limit);
    EXPECT_LT(took[r] / 1ms, (limit + 1s + late + limit) / 2 / 1ms)
        << "rank 2's own word came after " << (late + limit) / 1ms << " ms";
  }
}

TEST(Hosts, ForgetWhoWaitedInCallsThatAreDone) {
  c10::intrusive_ptr<c10d::Store> store;
  Team team{.backend = "threads", .as = As::threads, .world = 2, .per_host = 1};
  team.adjust = [&](BackendSetup& setup) {
    if (setup.rank == 0) store = setup.store;
  };
  expect_ranks_succeed(team, [&](const Backend& backend, int rank) {
    int64_t at_first = 0;
    for (int call = 0; call < 12; ++call) {
      if (rank == 1) std::this_thread::sleep_for(250ms);  // longer than rank 0 waits without a word
      allreduce_within(backend, 20s);
      if (rank == 0 && call == 0) at_first = store->getNumKeys();
    }
    // A call's own notes are at most two a rank, where both waited. Of calls that are done there would be one of each
    // at least.
    if (rank == 0 && store->getNumKeys() > at_first + 4)
      throw std::runtime_error(c10::str(store->getNumKeys() - at_first, " more keys after eleven more calls"));
  });
}

}  // namespace
}  // namespace dpbench::testing
