// Tests the gloo backend: a second rendezvous attempt within the same timeout, the reduce-scatter, and the log of
// collectives.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/ranks/comm_ranks.h"

namespace dpbench::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLimit = 4000ms, kFirstAttempt = 2800ms;

// Store of rank 1. Rank 1 reports late that it did not hear from all ranks, so the first rendezvous attempt fails. If
// `leaves` is true, rank 1 then throws.
class LateStore : public c10d::PrefixStore {
 public:
  LateStore(c10::intrusive_ptr<c10d::Store> store, bool leaves)
      : PrefixStore("meeting", std::move(store)), leaves_(leaves) {}
  using PrefixStore::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    if (key != "attempt-1/heard-all/1") return PrefixStore::set(key, value);
    std::this_thread::sleep_for(kFirstAttempt);
    PrefixStore::set(key, std::vector<uint8_t>{'n', 'o'});
    if (leaves_) throw std::runtime_error("leaves");
  }

 private:
  bool leaves_;
};

Team late_team(bool leaves) {
  return {.backend = "gloo", .as = As::threads, .world = 2, .timeout = kLimit, .adjust = [=](BackendSetup& setup) {
            if (setup.rank == 1)
              setup.store = c10::make_intrusive<LateStore>(setup.store, leaves);
            else
              setup.store = c10::make_intrusive<c10d::PrefixStore>("meeting", setup.store);
          }};
}

TEST(Gloo, RendezvousEndsAtItsTimeoutIfARankLeavesBeforeTheSecondAttempt) {
  const auto begin = Clock::now();
  const auto errors = run_ranks(late_team(/*leaves=*/true), [](const auto&, int) {});
  EXPECT_NE(errors[0], "");
  EXPECT_EQ(errors[1], "leaves");
  EXPECT_GE(Clock::now() - begin, kLimit - 10ms);
  EXPECT_LT(Clock::now() - begin, (kLimit + kFirstAttempt + kLimit) / 2) << "the timeout restarted";
}

TEST(Gloo, ACollectiveHasItsFullTimeoutAfterASecondRendezvousAttempt) {
  expect_ranks_succeed(late_team(/*leaves=*/false), [](const c10::intrusive_ptr<c10d::Backend>& backend, int rank) {
    // Rank 1 starts the allreduce after the timeout of the rendezvous has passed, but within the timeout of the
    // allreduce.
    if (rank == 1) std::this_thread::sleep_for((kLimit - kFirstAttempt + kLimit) / 2);
    std::vector<at::Tensor> list{at::ones(10)};
    backend->allreduce(list, {})->wait();
    require_equal(list[0], at::full({10}, 2.0F), "sum");
  });
}

// In float32, 1 + 2^24 - 2^24 is 0 if added in rank order, and 1 if the last two are added first. In bfloat16, 1 + 2^8
// - 2^8 is 1 only if the sum is rounded once, at the end.
TEST(Gloo, ReduceScatterAddsInTheOrderOfRanks) {
  expect_ranks_succeed({.backend = "gloo", .world = 3}, [](const auto& backend, int rank) {
    const std::vector<float> big = {1, 0x1p24F, -0x1p24F}, small = {1, 0x1p8F, -0x1p8F};
    const auto reduced = [&](const at::Tensor& whole) {
      at::Tensor piece = at::empty({2}, whole.options()), input = whole;
      backend->_reduce_scatter_base(piece, input, {})->wait();
      return piece.to(at::kFloat);
    };
    require_equal(reduced(at::full({6}, big[static_cast<size_t>(rank)])), at::zeros({2}), "in float32");
    require_equal(reduced(at::full({6}, small[static_cast<size_t>(rank)], at::kBFloat16)), at::ones({2}),
                  "in bfloat16");
    require_equal(reduced(at::arange(6, at::kFloat)), 3 * (at::arange(2, at::kFloat) + 2 * rank), "its own piece");
  });
}

TEST(Gloo, LogsEachCollectiveWithItsSequenceNumberTheSameOnBothRanks) {
  std::vector<std::vector<std::string>> logged(2);
  const Team team{.backend = "gloo", .adjust = [&](BackendSetup& setup) {
                    setup.note = [&mine = logged[static_cast<size_t>(setup.rank)]](const StartedCall& call) {
                      mine.push_back("#" + std::to_string(call.number) + " " + std::string(call.text));
                    };
                  }};
  std::vector<std::vector<std::string>> want(2);
  expect_ranks_succeed(team, [&](const c10::intrusive_ptr<c10d::Backend>& backend, int rank) {
    std::vector<std::string>& mine = want[static_cast<size_t>(rank)];
    const auto expect_logged = [&](const std::string& call) {
      mine.push_back("#" + std::to_string(backend->getSequenceNumberForGroup()) + " " + call);
    };
    std::vector<at::Tensor> floats{at::ones(12)}, longs{at::ones({3}, at::kLong)};
    c10d::AllreduceOptions most;
    most.reduceOp = c10d::ReduceOp::MAX;
    backend->allreduce(floats, {})->wait();
    expect_logged("allreduce of 12 Float (sum)");
    backend->allreduce(longs, most)->wait();
    expect_logged("allreduce of 3 Long (max)");
    backend->broadcast(longs, {})->wait();
    expect_logged("broadcast of 3 Long with root 0");
    at::Tensor whole = at::empty(24), piece = at::empty(12);
    backend->_allgather_base(whole, floats[0], {})->wait();
    expect_logged("allgather of 24 Float");
    backend->_reduce_scatter_base(piece, whole, {})->wait();
    expect_logged("reduce_scatter of 24 Float (sum)");
    std::vector<std::vector<at::Tensor>> lists{{at::empty(12), at::empty(12)}};
    backend->allgather(lists, floats, {})->wait();
    expect_logged("allgather of 24 Float");
    backend->barrier({})->wait();
    expect_logged("barrier");
  });
  EXPECT_EQ(logged[0], want[0]);
  EXPECT_EQ(logged[1], want[1]);
  EXPECT_EQ(logged[0], logged[1]);
}

}  // namespace
}  // namespace dpbench::testing
