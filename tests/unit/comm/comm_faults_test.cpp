// Faults of ranks (death, absence, mismatched collectives) end the collective on every rank within a time limit. All
// ranks report the same culprit, call and reason.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/ranks/comm_ranks.h"
#include "tests/support/contains.h"

namespace dpbench::testing {
namespace {

using namespace std::chrono_literals;
using Backend = c10::intrusive_ptr<c10d::Backend>;
using Tensors = std::vector<at::Tensor>;
using Clock = std::chrono::steady_clock;

// Limits on the time until all ranks report an error. They hold on an idle machine and are tripled here, because a test
// machine may be busy. kStart is added for starting the ranks.
constexpr std::chrono::milliseconds kMismatchReported = 3 * 1s, kDeathReported = 3 * 500ms;
// allowed time from the SIGKILL of a rank until the other ranks of its host report an error
constexpr auto kDeathSeen = 1s;
constexpr auto kStart = 4s;

c10::intrusive_ptr<c10d::Work> allreduce(const Backend& backend, const at::Tensor& tensor,
                                         c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM) {
  Tensors list{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  return backend->allreduce(list, options);
}

c10::intrusive_ptr<c10d::Work> broadcast(const Backend& backend, const at::Tensor& tensor, int root = 0) {
  Tensors list{tensor};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return backend->broadcast(list, options);
}

void expect_all_mention(const std::vector<std::string>& errors, const std::vector<std::string>& parts) {
  for (size_t r = 0; r < errors.size(); ++r)
    for (const auto& part : parts) EXPECT_TRUE(mentions(errors[r], {part})) << "rank " << r;
}

struct Mismatch {
  const char* name;
  std::function<void(const Backend&)> usual, odd;
  std::vector<std::string> words;
};

std::vector<Mismatch> mismatches() {
  const auto floats = [](int64_t n) { return at::ones(n); };
  return {
      {"Operations",
       [=](auto& b) { allreduce(b, floats(100))->wait(); },
       [=](auto& b) { broadcast(b, floats(100))->wait(); },
       {"allreduce of 100 Float (sum)", "broadcast of 100 Float with root 0"}},
      {"Counts",
       [=](auto& b) { allreduce(b, floats(4))->wait(); },
       [=](auto& b) { allreduce(b, floats(2))->wait(); },
       {"allreduce of 4 Float", "allreduce of 2 Float"}},
      {"LargeCounts",
       [=](auto& b) { allreduce(b, floats(1000000))->wait(); },
       [=](auto& b) { allreduce(b, floats(50000))->wait(); },
       {"1000000 Float", "50000 Float"}},
      {"Types",
       [=](auto& b) { allreduce(b, floats(8))->wait(); },
       [=](auto& b) { allreduce(b, floats(8).to(at::kLong))->wait(); },
       {"8 Float", "8 Long"}},
      {"NarrowTypes",  // the ranks differ in dtype only: elements of float16 and bfloat16 have two bytes each
       [=](auto& b) { allreduce(b, floats(8).to(at::kHalf))->wait(); },
       [=](auto& b) { allreduce(b, floats(8).to(at::kBFloat16))->wait(); },
       {"8 Half", "8 BFloat16"}},
      {"Reductions",
       [=](auto& b) { allreduce(b, floats(8))->wait(); },
       [=](auto& b) { allreduce(b, floats(8), c10d::ReduceOp::MAX)->wait(); },
       {"(sum)", "(max)"}},
      {"Roots",
       [=](auto& b) { broadcast(b, floats(8), 0)->wait(); },
       [=](auto& b) { broadcast(b, floats(8), 2)->wait(); },
       {"root 0", "root 2"}},
      {"Strides",
       [=](auto& b) { allreduce(b, floats(6).view({2, 3}))->wait(); },
       [=](auto& b) { allreduce(b, floats(6).view({2, 3}).t())->wait(); },
       {"strides"}},
      {"OneInTheMiddle",
       [=](auto& b) {
         for (int i = 0; i < 50; ++i) allreduce(b, floats(30))->wait();
       },
       [=](auto& b) {
         for (int i = 0; i < 50; ++i) i == 20 ? b->barrier({})->wait() : allreduce(b, floats(30))->wait();
       },
       {"#22 allreduce", "#22 barrier"}},
  };
}

struct Arm {
  const char *name, *backend;
  As as;
  int per_host = 0;
};
void PrintTo(const Arm& arm, std::ostream* out) { *out << arm.name; }

class Faults : public ::testing::TestWithParam<Arm> {
 protected:
  Team team(int world, std::chrono::milliseconds timeout = 20s) const {
    return {.backend = GetParam().backend,
            .as = GetParam().as,
            .world = world,
            .per_host = GetParam().per_host,
            .timeout = timeout};
  }
};

TEST_P(Faults, MismatchedCollectivesAreNamedOnAllRanks) {
  for (const auto& mismatch : mismatches()) {
    SCOPED_TRACE(mismatch.name);
    const auto begin = Clock::now();
    const auto errors = run_ranks(
        team(3), [&](const Backend& backend, int rank) { (rank == 1 ? mismatch.odd : mismatch.usual)(backend); });
    auto words = mismatch.words;
    words.insert(words.end(), {"rank 1"});
    expect_all_mention(errors, words);
    EXPECT_LT(Clock::now() - begin, kStart + kMismatchReported) << "before the timeout";
  }
}

TEST_P(Faults, TensorsAreUnchangedAfterMismatchedCollectives) {
  expect_ranks_succeed(team(2), [](const Backend& backend, int rank) {
    const auto tensor = at::full(100000, rank + 1.0);
    try {
      rank == 0 ? allreduce(backend, tensor)->wait() : broadcast(backend, tensor)->wait();
    } catch (const std::exception&) {
      return require_equal(tensor, at::full(100000, rank + 1.0), "after the failure");
    }
    throw std::runtime_error("nothing was thrown");
  });
}

TEST_P(Faults, ABrokenGroupRepeatsItsErrorInLaterCalls) {
  expect_ranks_succeed(team(2), [](const Backend& backend, int rank) {
    std::string first, second;
    try {
      allreduce(backend, at::ones(3 + rank))->wait();
    } catch (const std::exception& error) {
      first = error.what();
    }
    try {
      allreduce(backend, at::ones(3))->wait();
    } catch (const std::exception& error) {
      second = error.what();
    }
    if (first.empty() || first != second) throw std::runtime_error("first: " + first + "; then: " + second);
  });
}

TEST_P(Faults, ANewGroupComputesExactSumsAfterAnEarlierGroupBroke) {
  std::vector<BackendSetup> setups(3);
  Team three = team(3);
  three.adjust = [&](BackendSetup& setup) { setups[static_cast<size_t>(setup.rank)] = setup; };
  expect_ranks_succeed(three, [&](const Backend& backend, int rank) {
    bool broke = false;
    try {
      allreduce(backend, at::ones(rank == 1 ? 4 : 3))->wait();
    } catch (const std::exception&) {
      broke = true;
    }
    if (!broke) throw std::runtime_error("no error");
    BackendSetup again = setups[static_cast<size_t>(rank)];
    again.store = c10::make_intrusive<c10d::PrefixStore>("again", again.store);
    const Backend fresh = backend_registry().at(GetParam().backend).make(again);
    for (int round = 1; round < 4; ++round) {
      const at::Tensor sum = at::full({1000}, static_cast<float>(round * (rank + 1)));
      allreduce(fresh, sum)->wait();
      require_equal(sum, at::full({1000}, static_cast<float>(6 * round)), "sum over the new group");
    }
  });
}

TEST_P(Faults, ARankMissingFromACollectiveIsNamedAtTheTimeout) {
  const auto begin = Clock::now();
  const auto errors = run_ranks(team(3, 300ms), [](const Backend& backend, int rank) {
    allreduce(backend, at::ones(10))->wait();
    if (rank == 1) std::this_thread::sleep_for(1s);
    allreduce(backend, at::ones(11))->wait();
  });
  expect_all_mention(errors, {"for rank 1", "#3 allreduce of 11 Float"});
  if (GetParam().per_host == 0) expect_all_mention(errors, {"#2 allreduce of 10 Float"});
  EXPECT_GE(Clock::now() - begin, 300ms);
}

TEST_P(Faults, TheTimeoutOfACallOverridesTheTimeoutOfTheProcessGroup) {
  const auto begin = Clock::now();
  const auto errors = run_ranks(team(2), [](const Backend& backend, int rank) {
    c10d::AllreduceOptions options;
    options.timeout = 200ms;
    Tensors tensors{at::ones(10)};
    if (rank == 0) backend->allreduce(tensors, options)->wait();
    if (rank == 1) std::this_thread::sleep_for(600ms);
  });
  EXPECT_TRUE(mentions(errors[0], {"for rank 1"}));
  EXPECT_LT(Clock::now() - begin, kStart + kDeathReported);
}

TEST_P(Faults, ARankThatNeverJoinsIsNamed) {
  for (const int missing : {0, 1}) {
    const auto errors = run_ranks({.backend = GetParam().backend,
                                   .as = GetParam().as,
                                   .world = 3,
                                   .per_host = GetParam().per_host,
                                   .timeout = 300ms,
                                   .adjust =
                                       [=](BackendSetup& setup) {
                                         if (setup.rank == missing) throw std::runtime_error("stays away");
                                       }},
                                  [](const Backend&, int) {});
    for (int r = 0; r < 3; ++r) {
      const std::string want = r == missing ? "stays away" : c10::str("for rank ", missing);
      EXPECT_TRUE(mentions(errors[r], {want}));
    }
  }
}

TEST_P(Faults, ARankThatLeavesFailsTheCollectiveOfTheWaitingRanks) {
  const auto begin = Clock::now();
  const auto errors = run_ranks(team(3), [](const Backend& backend, int rank) {
    if (rank != 2) allreduce(backend, at::ones(10))->wait();
  });
  EXPECT_EQ(errors[2], "");
  for (int r : {0, 1}) EXPECT_TRUE(mentions(errors[r], {"rank 2", "left"}));
  EXPECT_LT(Clock::now() - begin, kStart + kDeathReported);
}

TEST_P(Faults, AbortEndsTheWaitOfTheRankThatCallsIt) {
  const auto errors = run_ranks(team(2), [](const Backend& backend, int rank) {
    if (rank == 1) return std::this_thread::sleep_for(300ms);
    const auto work = allreduce(backend, at::ones(10));
    backend->abort();
    work->wait();
  });
  EXPECT_TRUE(mentions(errors[0], {"rank 0", "#2 allreduce of 10 Float"}));
}

TEST_P(Faults, TheFutureOfAFailedCollectiveHoldsItsError) {
  const auto errors = run_ranks(team(2), [](const Backend& backend, int rank) {
    auto future = allreduce(backend, at::ones(3 + rank))->getFuture();
    future->wait();
    if (future->hasError()) std::rethrow_exception(future->exception_ptr());
  });
  expect_all_mention(errors, {"rank 1"});
}

TEST_P(Faults, UnsupportedTensorsAndInvalidRootsAreRejectedWithoutAffectingPeers) {
  expect_ranks_succeed(team(2), [](const Backend& backend, int rank) {
    const auto refuses = [&](const at::Tensor& tensor, const char* word,
                             c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM) {
      try {
        allreduce(backend, tensor, op);
      } catch (const std::exception& error) {
        if (says(error.what(), word)) return;
        throw;
      }
      throw std::runtime_error(std::string("not refused: ") + word);
    };
    if (rank == 0) {
      refuses(at::ones({4, 4}).slice(1, 0, 2), "gaps");
      refuses(at::ones(4).to(at::kBool), "Bool");
      refuses(at::ones({2, 2}).to_sparse(), "sparse");
      refuses(at::ones(4).to(at::kInt), "Int", c10d::ReduceOp::AVG);
      refuses(at::ones(4).to(at::kLong), "Long", c10d::ReduceOp::AVG);
      try {
        broadcast(backend, at::ones(4), 2);
        throw std::runtime_error("an invalid root was not refused");
      } catch (const std::invalid_argument& error) {
        if (!says(error.what(), "rank 2") || !says(error.what(), "root")) throw;
      }
    }
    const auto tensor = at::ones(5);
    allreduce(backend, tensor)->wait();
    require_equal(tensor, at::full(5, 2.0), "afterwards");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Faults,
                         ::testing::Values(Arm{"threads", "threads", As::threads}, Arm{"shm", "shm", As::processes},
                                           Arm{"hostsOfOne", "threads", As::threads, 1},
                                           Arm{"hostsOfTwo", "shm", As::processes, 2}),
                         [](const auto& arm) { return arm.param.name; });

// Kills rank 2 of 4 with SIGKILL. Returns the time from the kill until the last surviving rank has thrown.
std::chrono::nanoseconds time_until_death_is_known(int64_t count) {
  // element 2: time of the kill of rank 2; other elements r: time of the error on rank r
  const SharedNumbers<int64_t> known;
  const auto note = [&](int rank) { known[rank] = Clock::now().time_since_epoch() / 1ns; };
  const auto errors =
      run_ranks({.backend = "shm", .as = As::processes, .world = 4}, [&](const Backend& backend, int rank) {
        const auto tensor = at::zeros(count);
        try {
          for (int i = 0; i < 100; ++i) {
            if (rank == 2 && i == 7) note(rank), raise(SIGKILL);
            allreduce(backend, tensor)->wait();
          }
        } catch (const std::exception&) {
          note(rank);
          throw;
        }
      });
  EXPECT_EQ(errors[2], "ended by signal 9");
  int64_t last = 0;
  for (int r : {0, 1, 3}) {
    EXPECT_TRUE(mentions(errors[r], {"rank 2 (pid ", "died", "#9 allreduce of " + std::to_string(count)}));
    last = std::max(last, known[r].load());
  }
  return std::chrono::nanoseconds(last - known[2]);
}

// Waiting ranks poll for a death every 5 ms; the rest of the time is process teardown in the kernel. The fastest of
// three attempts counts, because a busy machine may delay the others.
TEST(RankDeath, IsDetectedAndNamedByAllOtherRanks) {
  for (const int64_t count : {10, 3'000'000}) {
    auto took = time_until_death_is_known(count);
    for (int more = 0; more < 2 && took > kDeathSeen; ++more) took = std::min(took, time_until_death_is_known(count));
    EXPECT_LT(took / 1ms, kDeathSeen / 1ms);
  }
}

TEST(RankDeath, CausesAnErrorAndNotASignalInOtherRanksOverGloo) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    const auto errors =
        run_ranks({.backend = "gloo", .as = As::processes, .world = 2}, [=](const Backend& backend, int rank) {
          std::vector<c10::intrusive_ptr<c10d::Work>> works;
          for (int i = 0; i < 40; ++i) {
            if (rank == 1 && i == 3 + attempt) raise(SIGKILL);
            works.push_back(broadcast(backend, at::zeros(300'000)));
          }
          for (const auto& work : works) work->wait();
        });
    EXPECT_EQ(errors[1], "ended by signal 9");
    EXPECT_FALSE(errors[0].empty());
    EXPECT_FALSE(says(errors[0], "ended by signal")) << errors[0];
  }
}

TEST(RankDeath, BeforeTheProcessGroupIsCompleteIsReportedWithTheDeadRank) {
  const auto begin = Clock::now();
  const auto errors = run_ranks({.backend = "shm",
                                 .as = As::processes,
                                 .world = 3,
                                 .timeout = 400ms,
                                 .adjust =
                                     [](BackendSetup& setup) {
                                       if (setup.rank == 1) raise(SIGKILL);
                                     }},
                                [](const Backend&, int) {});
  EXPECT_TRUE(mentions(errors[0], {"rank 1"}));
  EXPECT_LT(Clock::now() - begin, kStart + kDeathReported);
}

TEST(Hosts, RanksOnAllHostsNameADeadRankLongBeforeTheTimeout) {
  for (const int killed : {3, 2, 0}) {  // ranks 2 and 0 are leaders (the first ranks of their hosts)
    SCOPED_TRACE(killed);
    const auto begin = Clock::now();
    auto errors = run_ranks({.backend = "shm", .as = As::processes, .world = 4, .per_host = 2},
                            [=](const Backend& backend, int rank) {
                              for (int i = 0; i < 20; ++i) {
                                if (rank == killed && i == 5) raise(SIGKILL);
                                allreduce(backend, at::ones(1000))->wait();
                              }
                            });
    EXPECT_EQ(errors[killed], "ended by signal 9");
    errors.erase(errors.begin() + killed);
    expect_all_mention(errors, {c10::str("rank ", killed, " (pid "), "died", "#7 allreduce of 1000 Float (sum)"});
    EXPECT_EQ(errors[0], errors[1]) << "all ranks report the same reason";
    EXPECT_EQ(errors[0], errors[2]) << "all ranks report the same reason";
    EXPECT_LT(Clock::now() - begin, kStart + kDeathReported) << "long before the timeout of 20 s";
  }
}

TEST(Hosts, RanksOnAllHostsNameALateRankAndDoNotBlameTheLeaderOfItsHost) {
  const auto errors = run_ranks({.backend = "shm", .as = As::processes, .world = 5, .per_host = 2, .timeout = 500ms},
                                [](const Backend& backend, int rank) {
                                  allreduce(backend, at::ones(10))->wait();
                                  // The ranks of the second host (2 and 3) start the second allreduce later, so
                                  // ranks 0, 1 and 4 begin to wait before rank 2.
                                  if (rank / 2 == 1) std::this_thread::sleep_for(200ms);
                                  if (rank == 3) std::this_thread::sleep_for(3s);
                                  allreduce(backend, at::ones(11))->wait();
                                });
  expect_all_mention(errors, {"rank 2 (pid ", "for rank 3 (pid ", "#3 allreduce of 11 Float"});
}

TEST(Hosts, ErrorsNameTheLeaderOfAHostThatNeverJoins) {
  const auto errors = run_ranks({.backend = "threads",
                                 .world = 4,
                                 .per_host = 2,
                                 .timeout = 300ms,
                                 .adjust =
                                     [](BackendSetup& setup) {
                                       if (setup.rank >= 2) throw std::runtime_error("stays away");
                                     }},
                                [](const Backend&, int) {});
  for (int r : {0, 1}) EXPECT_TRUE(mentions(errors[r], {"for rank 2", "leader"}));
}

size_t entries(const char* directory) {
  const std::filesystem::directory_iterator begin(directory), end;
  return std::distance(begin, end);
}

TEST(BackendThreads, LeakNoFileDescriptorsAndNoMemoryMappingsWhenGroupsEnd) {
  const auto once = [] {
    expect_ranks_succeed({.backend = "threads", .world = 3}, [](const Backend& backend, int) {
      const auto shared = backend->allocateTensor(50000, at::TensorOptions().dtype(at::kFloat));
      allreduce(backend, shared.zero_())->wait();
    });
  };
  once();
  const size_t before = entries("/proc/self/fd");
  for (int i = 0; i < 10; ++i) once();
  EXPECT_EQ(entries("/proc/self/fd"), before);
  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), {});
  EXPECT_FALSE(says(text, "dpbench-"));
}

}  // namespace
}  // namespace dpbench::testing
