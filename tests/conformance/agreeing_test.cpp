// Ranks that call different collectives are told apart before anything is exchanged, over backends that would not
// notice.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "harness/conform/evidence/agreeing_backend.h"
#include "tests/unit/comm/comm_ranks.h"

namespace dpbench::testing {
namespace {

using Backend = c10::intrusive_ptr<c10d::Backend>;

class Agreeing : public ::testing::TestWithParam<const char*> {
 protected:
  using RankBody = std::function<void(AgreeingBackend& backend, int rank)>;

  // What each rank threw, over processes of its own.
  std::vector<std::string> thrown(const RankBody& body) const {
    const Team team{.backend = GetParam(), .as = As::processes, .world = 3};
    return run_ranks(team, [&](const Backend& backend, int rank) {
      AgreeingBackend agreeing(backend, at::kCPU, "even");
      body(agreeing, rank);
      agreeing.finish("all steps done");
    });
  }

  static void reduce(AgreeingBackend& backend, int64_t count, at::ScalarType dtype = at::kFloat,
                     c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM) {
    std::vector<at::Tensor> box = {at::ones({count}, dtype)};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    backend.allreduce(box, options)->wait();
  }

  static void broadcast(AgreeingBackend& backend, int root) {
    std::vector<at::Tensor> box = {at::ones({4})};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    backend.broadcast(box, options)->wait();
  }

  // Forty at once, the last of another size.
  static void reduce_many(AgreeingBackend& backend, int64_t last) {
    std::vector<at::Tensor> all(40, at::ones({4}));
    all.back() = at::ones({last});
    backend.allreduce_coalesced(all, {})->wait();
  }

  // Every rank says it, with what rank 0 and rank 1 did.
  void expect_named(const RankBody& body, const std::string& rank0, const std::string& rank1) const {
    const auto all = thrown(body);
    for (const auto& text : all)
      EXPECT_NE(text.find("rank 0 \"even: " + rank0 + "\", rank 1 \"even: " + rank1 + "\""), std::string::npos) << text;
  }
};

TEST_P(Agreeing, LikeCallsPass) {
  for (const auto& text : thrown([](AgreeingBackend& backend, int) {
         for (int step = 0; step < 3; ++step) backend.begin_step(step), reduce(backend, 4), reduce(backend, 7);
       }))
    EXPECT_EQ(text, "");
}

TEST_P(Agreeing, ACallOfTheSameShapeThatOneRankSkipsIsNamed) {
  expect_named(
      [](AgreeingBackend& backend, int rank) {
        for (int step = 0; step < 3; ++step) {
          backend.begin_step(step);
          if (rank != 1 || step != 1) reduce(backend, 4);
        }
      },
      "step 1, call 0: allreduce (sum) of 4 Float", "step 2, call 0: allreduce (sum) of 4 Float");
}

TEST_P(Agreeing, TheLastCallSkippedIsNamedToo) {
  const auto all = thrown([](AgreeingBackend& backend, int rank) {
    backend.begin_step(0);
    if (rank != 1) reduce(backend, 4);
  });
  EXPECT_EQ(all[1], "");
  for (const int rank : {0, 2})
    EXPECT_NE(all[rank].find("rank 1 \"even: all steps done\""), std::string::npos) << all[rank];
}

TEST_P(Agreeing, CallsThatDifferAreNamed) {
  const auto differ = [&](const RankBody& other, const std::string& named) {
    expect_named([&](AgreeingBackend& backend, int rank) { rank == 1 ? other(backend, rank) : reduce(backend, 4); },
                 "set-up, call 0: allreduce (sum) of 4 Float", "set-up, call 0: " + named);
  };
  differ([](AgreeingBackend& backend, int) { reduce(backend, 2); }, "allreduce (sum) of 2 Float");
  differ([](AgreeingBackend& backend, int) { reduce(backend, 4, at::kDouble); }, "allreduce (sum) of 4 Double");
  differ([](AgreeingBackend& backend, int) { reduce(backend, 4, at::kFloat, c10d::ReduceOp::MAX); },
         "allreduce (max) of 4 Float");
  differ([](AgreeingBackend& backend, int) { reduce(backend, 4, at::kFloat, c10d::ReduceOp::PRODUCT); },
         "allreduce (product) of 4 Float");
  differ([](AgreeingBackend& backend, int) { broadcast(backend, 0); }, "broadcast of 4 Float with root 0");
}

TEST_P(Agreeing, RootsThatDifferAreNamed) {
  expect_named([](AgreeingBackend& backend, int rank) { broadcast(backend, rank == 1 ? 1 : 0); },
               "set-up, call 0: broadcast of 4 Float with root 0", "set-up, call 0: broadcast of 4 Float with root 1");
}

TEST_P(Agreeing, CallsThatDifferFarBeyondWhatIsShownAreNamed) {
  for (const auto& text : thrown([](AgreeingBackend& backend, int rank) { reduce_many(backend, rank == 1 ? 5 : 4); })) {
    EXPECT_NE(
        text.find(
            "the ranks call different collectives: rank 0 \"even: set-up, call 0: allreduce (sum) of 4 Float, 4 "),
        std::string::npos)
        << text;
    EXPECT_NE(text.find(".. #"), std::string::npos) << text;
  }
  for (const auto& text : thrown([](AgreeingBackend& backend, int) { reduce_many(backend, 4); })) EXPECT_EQ(text, "");
}

TEST_P(Agreeing, ARankThatGaveUpIsNamedByThoseWhoWouldWait) {
  const auto all = thrown([](AgreeingBackend& backend, int rank) {
    if (rank == 1) {
      backend.finish("gave up: no more");
      throw std::runtime_error("no more");
    }
    reduce(backend, 4);
  });
  EXPECT_EQ(all[1], "no more");
  for (const int rank : {0, 2}) EXPECT_NE(all[rank].find("gave up: no more"), std::string::npos) << all[rank];
}

INSTANTIATE_TEST_SUITE_P(Over, Agreeing, ::testing::Values("gloo", "shm"),
                         [](const auto& over) { return std::string(over.param); });

}  // namespace
}  // namespace dpbench::testing
