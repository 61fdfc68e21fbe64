// AgreeingBackend compares the collectives that the ranks are about to call and reports a difference before any data is
// exchanged. These tests wrap it around backends that would not detect the difference. LateBackend delays collectives.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include <ATen/ATen.h>

#include "harness/conform/evidence/agreeing_backend.h"
#include "harness/conform/evidence/watching_backends.h"
#include "tests/ranks/comm_ranks.h"
#include "tests/support/contains.h"

namespace dpbench::testing {
namespace {

using Backend = c10::intrusive_ptr<c10d::Backend>;

class CollectiveComparison : public ::testing::TestWithParam<const char*> {
 protected:
  using RankBody = std::function<void(AgreeingBackend& backend, int rank)>;

  // Runs `body` on three ranks, each a process. Returns each rank's error message; empty if the rank succeeded.
  std::vector<std::string> errors_of(const RankBody& body) const {
    const Team team{.backend = GetParam(), .as = As::processes, .world = 3};
    return run_ranks(team, [&](const Backend& backend, int rank) {
      AgreeingBackend agreeing(backend, at::kCPU, "even");
      body(agreeing, rank);
      agreeing.finish("all steps done");
    });
  }

  static void reduce(AgreeingBackend& backend, int64_t count, at::ScalarType dtype = at::kFloat,
                     c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM) {
    std::vector<at::Tensor> list = {at::ones({count}, dtype)};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    backend.allreduce(list, options)->wait();
  }

  static void broadcast(AgreeingBackend& backend, int root) {
    std::vector<at::Tensor> list = {at::ones({4})};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    backend.broadcast(list, options)->wait();
  }

  // Starts one coalesced allreduce of forty tensors: the last has `last` elements, the others 4.
  static void reduce_many(AgreeingBackend& backend, int64_t last) {
    std::vector<at::Tensor> all(40, at::ones({4}));
    all.back() = at::ones({last});
    backend.allreduce_coalesced(all, {})->wait();
  }

  // Expects the error of every rank to contain the texts `rank0` and `rank1`: the calls of rank 0 and rank 1 that
  // differ.
  void expect_named(const RankBody& body, const std::string& rank0, const std::string& rank1) const {
    const auto all = errors_of(body);
    for (const auto& text : all)
      EXPECT_TRUE(mentions(text, {"rank 0 \"even: " + rank0 + "\"", "rank 1 \"even: " + rank1 + "\""}));
  }
};

TEST_P(CollectiveComparison, AcceptsEqualCollectivesOnAllRanks) {
  for (const auto& text : errors_of([](AgreeingBackend& backend, int) {
         for (int step = 0; step < 3; ++step) backend.begin_step(step), reduce(backend, 4), reduce(backend, 7);
       }))
    EXPECT_EQ(text, "");
}

TEST_P(CollectiveComparison, NamesACollectiveThatOneRankSkipped) {
  expect_named(
      [](AgreeingBackend& backend, int rank) {
        for (int step = 0; step < 3; ++step) {
          backend.begin_step(step);
          if (rank != 1 || step != 1) reduce(backend, 4);
        }
      },
      "step 1, call 0: allreduce (sum) of 4 Float", "step 2, call 0: allreduce (sum) of 4 Float");
}

TEST_P(CollectiveComparison, NamesTheRankThatSkippedTheLastCollective) {
  const auto all = errors_of([](AgreeingBackend& backend, int rank) {
    backend.begin_step(0);
    if (rank != 1) reduce(backend, 4);
  });
  EXPECT_EQ(all[1], "");
  for (const int rank : {0, 2}) EXPECT_TRUE(mentions(all[rank], {"rank 1", "all steps done"}));
}

TEST_P(CollectiveComparison, NamesCollectivesThatDifferBetweenRanks) {
  const auto expect_difference = [&](const RankBody& body, const std::string& named) {
    expect_named([&](AgreeingBackend& backend, int rank) { rank == 1 ? body(backend, rank) : reduce(backend, 4); },
                 "set-up, call 0: allreduce (sum) of 4 Float", "set-up, call 0: " + named);
  };
  expect_difference([](AgreeingBackend& backend, int) { reduce(backend, 2); }, "allreduce (sum) of 2 Float");
  expect_difference([](AgreeingBackend& backend, int) { reduce(backend, 4, at::kDouble); },
                    "allreduce (sum) of 4 Double");
  expect_difference([](AgreeingBackend& backend, int) { reduce(backend, 4, at::kFloat, c10d::ReduceOp::MAX); },
                    "allreduce (max) of 4 Float");
  expect_difference([](AgreeingBackend& backend, int) { reduce(backend, 4, at::kFloat, c10d::ReduceOp::PRODUCT); },
                    "allreduce (product) of 4 Float");
  expect_difference([](AgreeingBackend& backend, int) { broadcast(backend, 0); }, "broadcast of 4 Float with root 0");
}

TEST_P(CollectiveComparison, NamesBroadcastsWithDifferentRoots) {
  expect_named([](AgreeingBackend& backend, int rank) { broadcast(backend, rank == 1 ? 1 : 0); },
               "set-up, call 0: broadcast of 4 Float with root 0", "set-up, call 0: broadcast of 4 Float with root 1");
}

TEST_P(CollectiveComparison, DetectsCollectivesThatDifferOnlyInAPartOfTheDescriptionThatIsCutOff) {
  for (const auto& text :
       errors_of([](AgreeingBackend& backend, int rank) { reduce_many(backend, rank == 1 ? 5 : 4); })) {
    EXPECT_TRUE(mentions(text, {"rank 0 \"even: set-up, call 0: allreduce", ".. #"}));
  }
  for (const auto& text : errors_of([](AgreeingBackend& backend, int) { reduce_many(backend, 4); }))
    EXPECT_EQ(text, "");
}

TEST_P(CollectiveComparison, NamesTheRanksOfASubgroupByTheirGlobalNumbers) {
  const Team team{.backend = GetParam(), .as = As::processes, .world = 2};
  const auto errors = run_ranks(team, [](const Backend& backend, int rank) {
    AgreeingBackend agreeing(backend, at::kCPU, "even, axis dp", {1, 3});
    reduce(agreeing, rank == 1 ? 2 : 4);
  });
  for (const auto& text : errors)
    EXPECT_TRUE(mentions(text, {"rank 1 \"even, axis dp: set-up, call 0: allreduce (sum) of 4 Float\"",
                                "rank 3 \"even, axis dp: set-up, call 0: allreduce (sum) of 2 Float\""}));
}

TEST_P(CollectiveComparison, RanksThatWaitThrowTheErrorOfARankThatFailedBeforeTheCollective) {
  const auto all = errors_of([](AgreeingBackend& backend, int rank) {
    if (rank == 1) {
      backend.finish("gave up: no more");
      throw std::runtime_error("no more");
    }
    reduce(backend, 4);
  });
  EXPECT_EQ(all[1], "no more");
  for (const int rank : {0, 2}) EXPECT_TRUE(mentions(all[rank], {"gave up: no more"}));
}

INSTANTIATE_TEST_SUITE_P(Over, CollectiveComparison, ::testing::Values("gloo", "shm"),
                         [](const auto& over) { return std::string(over.param); });

// A strategy's callback can hold the last reference to the process group, whose backend cannot be destroyed on one of
// its own threads.
TEST(DelayedCollectives, HaveReleasedTheirCallbacksWhenSettleReturns) {
  const auto errors = run_ranks({.backend = "shm", .world = 2}, [](const Backend& backend, int) {
    const auto late = c10::make_intrusive<LateBackend>(backend, /*seed=*/1);
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 6; ++i) {
      std::vector<at::Tensor> list = {at::ones({4})};
      works.push_back(late->allreduce(list, {}));
      works.back()->getFuture()->addCallback(
          [late](c10::ivalue::Future&) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    }
    for (const auto& work : works) work->wait();
    works.clear();
    late->settle();
    if (late.use_count() > 1) throw std::runtime_error("a callback still has a reference");
  });
  for (const auto& text : errors) EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace dpbench::testing
