// Sends and receives between two ranks: values, tags, both directions at once, and the faults of a peer.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <thread>

#include "strategies/comm/shm/shared_memory.h"
#include "tests/ranks/comm_ranks.h"
#include "tests/support/contains.h"

namespace dpbench::testing {
namespace {

using namespace std::chrono_literals;
using Backend = c10::intrusive_ptr<c10d::Backend>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

WorkPtr send(const Backend& backend, const at::Tensor& tensor, int to, int tag = 0) {
  std::vector<at::Tensor> list{tensor};
  return backend->send(list, to, tag);
}

WorkPtr recv(const Backend& backend, at::Tensor tensor, int from, int tag = 0) {
  std::vector<at::Tensor> list{std::move(tensor)};
  return backend->recv(list, from, tag);
}

at::Tensor numbers(int64_t count, int from, at::ScalarType dtype = at::kFloat) {
  return at::arange(count).remainder(113).add(from).to(dtype);
}

struct MessagesArm {
  const char* name;
  As as;
  int per_host = 0;  // ranks per host; 0: all ranks are on one host
};

void PrintTo(const MessagesArm& arm, std::ostream* out) {
  *out << arm.name << (arm.per_host > 0 ? "_hosts_of_" + std::to_string(arm.per_host) : "");
}

class Messages : public ::testing::TestWithParam<MessagesArm> {
 protected:
  static Team team(int world, std::chrono::milliseconds timeout = 20s) {
    return {.backend = GetParam().name,
            .as = GetParam().as,
            .world = world,
            .per_host = GetParam().per_host,
            .timeout = timeout};
  }
};
class MessageFaults : public Messages {};

TEST_P(Messages, GoAroundARingInBothDirectionsAtOnce) {
  expect_ranks_succeed(team(3), [](const Backend& backend, int rank) {
    const int next = (rank + 1) % 3, previous = (rank + 2) % 3;
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong})
      for (const int64_t count : {1, 7, 16384, 16385, 300'000}) {
        const at::Tensor mine = numbers(count, rank, dtype), left = at::zeros_like(mine), right = at::zeros_like(mine);
        const std::vector<WorkPtr> works = {send(backend, mine, next), send(backend, mine, previous),
                                            recv(backend, left, previous), recv(backend, right, next)};
        for (const auto& work : works) work->wait();
        require_equal(left, numbers(count, previous, dtype), "from the previous rank");
        require_equal(right, numbers(count, next, dtype), "from the next rank");
      }
  });
}

TEST_P(Messages, AreMatchedByTagAndReceivedInSendOrderWithinATag) {
  expect_ranks_succeed(team(2), [](const Backend& backend, int rank) {
    // the messages to send: a tag and a value each
    const std::vector<std::pair<int, int>> messages = {{5, 1}, {6, 2}, {5, 3}, {7, 4}};
    std::vector<WorkPtr> works;
    std::vector<at::Tensor> received;
    if (rank == 0) {
      for (const auto& [tag, value] : messages) works.push_back(send(backend, numbers(40'000, value), 1, tag));
    } else {
      for (const int tag : {7, 5, 5, 6}) {
        received.push_back(at::zeros(40'000));
        works.push_back(recv(backend, received.back(), 0, tag));
      }
    }
    for (const auto& work : works) work->wait();
    const std::vector<int> due = {4, 1, 3, 2};
    for (size_t i = 0; i < received.size(); ++i)
      require_equal(received[i], numbers(40'000, due[i]), "message " + std::to_string(i));
  });
}

TEST_P(Messages, MayBePendingDuringCollectives) {
  expect_ranks_succeed(team(2), [](const Backend& backend, int rank) {
    const at::Tensor received = at::zeros(1000);
    const auto late = recv(backend, received, 1 - rank);
    for (int i = 0; i < 5; ++i) {
      std::vector<at::Tensor> sum = {at::full({100'000}, rank + 1.f)};
      backend->allreduce(sum, {})->wait();
      require_equal(sum[0], at::full({100'000}, 3.f), "sum");
    }
    const auto sent = send(backend, numbers(1000, rank), 1 - rank);
    sent->wait(), late->wait();
    require_equal(received, numbers(1000, 1 - rank), "message");
  });
}

TEST_P(Messages, ASendEndsOnlyWhenItsMessageIsReceived) {
  expect_ranks_succeed(team(2), [](const Backend& backend, int rank) {
    const at::Tensor tensor = numbers(10, 0);
    const auto work = rank == 0 ? send(backend, tensor, 1) : WorkPtr();
    std::vector<at::Tensor> flag = {at::ones(1)};
    if (rank == 0) std::this_thread::sleep_for(20ms);
    if (rank == 0 && work->isCompleted()) throw std::runtime_error("ended before the recv");
    backend->allreduce(flag, {})->wait();
    (rank == 0 ? work : recv(backend, tensor, 0))->wait();
  });
}

TEST_P(MessageFaults, NameTheMessagesOfBothRanksIfTheirSizesDiffer) {
  const auto errors = run_ranks(team(2), [](const Backend& backend, int rank) {
    (rank == 0 ? send(backend, at::ones(5), 1, 3) : recv(backend, at::ones(7), 0, 3))->wait();
  });
  for (const auto& error : errors)
    EXPECT_TRUE(mentions(error, {"rank 0", "sent 5 Float", "rank 1", "recv of 7 Float from rank 0", "tag 3"}));
}

TEST_P(MessageFaults, NameTheRankThatNeverSends) {
  const auto errors = run_ranks(team(2, 300ms), [](const Backend& backend, int rank) {
    if (rank == 0) recv(backend, at::ones(7), 1, 3)->wait();
    if (rank == 1) std::this_thread::sleep_for(1s);
  });
  EXPECT_TRUE(mentions(errors[0], {"rank 0", "timed out", "recv of 7 Float from rank 1", "tag 3"}));
}

TEST_P(MessageFaults, NameAPeerThatLeft) {
  const auto errors = run_ranks(team(3), [](const Backend& backend, int rank) {
    if (rank == 0) send(backend, at::ones(7), 1)->wait();
    if (rank == 2) recv(backend, at::ones(7), 0)->wait();
  });
  EXPECT_EQ(errors[1], "");
  for (const int r : {0, 2}) EXPECT_TRUE(mentions(errors[r], {"rank 1", "left", "send of 7 Float"}));
}

TEST_P(MessageFaults, AMessageReceivedJustBeforeThePeerLeavesIsValid) {
  for (int round = 0; round < 20; ++round)
    expect_ranks_succeed(team(2), [](const Backend& backend, int rank) {
      const at::Tensor tensor = rank == 0 ? numbers(50'000, 9) : at::zeros(50'000);
      (rank == 0 ? send(backend, tensor, 1) : recv(backend, tensor, 0))->wait();
      require_equal(tensor, numbers(50'000, 9), "message");
    });
}

TEST_P(MessageFaults, AbortEndsThePendingReceiveOfTheRankThatCallsIt) {
  const auto errors = run_ranks(team(2), [](const Backend& backend, int rank) {
    if (rank == 1) return std::this_thread::sleep_for(300ms);
    const auto work = recv(backend, at::ones(7), 1);
    backend->abort();
    work->wait();
  });
  EXPECT_TRUE(mentions(errors[0], {"rank 0", "aborted"}));
}

TEST_P(MessageFaults, SendRefusesInvalidPeersAndTensorsWithGaps) {
  expect_ranks_succeed(team(2), [](const Backend& backend, int rank) {
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const std::invalid_argument&) {
        return;
      }
      throw std::runtime_error("not refused");
    };
    for (const int peer : {rank, -1, 2}) refused([&] { send(backend, at::ones(3), peer); });
    refused([&] { send(backend, at::ones({4, 4}).t().slice(0, 0, 2), 1 - rank); });
  });
}

TEST(MessagesBetweenHosts, AReceiveThatTimesOutNamesBothRanks) {
  const Team team{.backend = "threads", .world = 2, .per_host = 1, .timeout = 500ms};
  const auto errors = run_ranks(team, [](const Backend& backend, int rank) {
    if (rank == 0) recv(backend, at::ones(7), 1, 3)->wait();
    if (rank == 1) std::this_thread::sleep_for(1s);
  });
  EXPECT_TRUE(mentions_in_order(errors[0], {"rank 0", "from rank 1"}));
}

TEST(MessagesBetweenHosts, SendRefusesInvalidPeersAndTensorsWithGaps) {
  expect_ranks_succeed({.backend = "threads", .world = 3, .per_host = 1}, [](const Backend& backend, int rank) {
    for (const int peer : {rank, -1, 3})
      EXPECT_THROW(send(backend, at::ones(3), peer), std::invalid_argument) << rank << " to " << peer;
    EXPECT_THROW(send(backend, at::ones({4, 4}).t().slice(0, 0, 2), (rank + 1) % 3), std::invalid_argument);
  });
}

TEST(MessagesBetweenHosts, AnAllToAllGivesEachRankItsPieces) {
  for (const int per_host : {1, 2})
    expect_ranks_succeed(
        {.backend = "threads", .world = 4, .per_host = per_host}, [](const Backend& backend, int rank) {
          at::Tensor sent = at::arange(8).add(100 * rank), received = at::zeros_like(sent);
          std::vector<int64_t> even;
          for (int round = 0; round < 3; ++round) backend->alltoall_base(received, sent, even, even)->wait();
          const at::Tensor due = at::tensor({0, 1, 100, 101, 200, 201, 300, 301}, at::kLong).add(2 * rank);
          require_equal(received, due, "pieces of all ranks");
        });
}

// Rank r sends (r + to) % 3 rows of a tensor to rank `to`, so that some pieces are empty.
TEST_P(Messages, AnAllToAllDeliversUnevenAndEmptyPieces) {
  expect_ranks_succeed(team(4), [&](const Backend& backend, int rank) {
    const auto rows = [](int from, int to) { return int64_t{(from + to) % 3}; };
    const auto piece = [&](int from, int to) { return at::full({rows(from, to), 2}, 10 * from + to, at::kDouble); };
    for (int round = 0; round < 3; ++round) {
      std::vector<int64_t> sent_sizes, received_sizes;
      std::vector<at::Tensor> sent, due;
      for (int other = 0; other < backend->getSize(); ++other) {
        sent_sizes.push_back(rows(rank, other)), received_sizes.push_back(rows(other, rank));
        sent.push_back(piece(rank, other)), due.push_back(piece(other, rank));
      }
      at::Tensor from = at::cat(sent), received = at::zeros_like(at::cat(due));
      backend->alltoall_base(received, from, received_sizes, sent_sizes)->wait();
      require_equal(received, at::cat(due), "pieces of all ranks");
    }
  });
}

TEST(UnevenPieces, OfAnAllToAllAreRejectedIfTheirSizesContradictTheTensorsOrEachOther) {
  for (const int per_host : {2, 1})
    expect_ranks_succeed({.backend = "threads", .world = 2, .per_host = per_host}, [](const Backend& backend, int) {
      at::Tensor sent = at::zeros({3}), received = at::zeros({3});
      std::vector<int64_t> three = {1, 2}, four = {2, 2}, one = {3};
      const auto call = [&](std::vector<int64_t> to, std::vector<int64_t> from) {
        backend->alltoall_base(received, sent, to, from);
      };
      EXPECT_THROW(call(three, four), std::invalid_argument);
      EXPECT_THROW(call(one, three), std::invalid_argument);
      // Contradiction: rank 0 sends one row to itself, but expects to receive two rows from itself.
      EXPECT_THROW(call({2, 1}, {1, 2}), std::invalid_argument);
    });
}

TEST(SenderDeath, IsReportedWithTheRankOfTheSenderAndThePendingReceive) {
  const auto errors =
      run_ranks({.backend = "shm", .as = As::processes, .world = 2}, [](const Backend& backend, int rank) {
        if (rank == 1) raise(SIGKILL);
        recv(backend, at::ones(7), 1, 4)->wait();
      });
  EXPECT_TRUE(mentions(errors[0], {"rank 1 (pid ", "died", "recv of 7 Float", "tag 4"}));
}

constexpr int64_t several_chunks = 300'000;  // number of elements of a message that is sent in several chunks

// Stops a process while the object exists.
class StoppedProcess {
 public:
  explicit StoppedProcess(pid_t process) : process_(process) { kill(process_, SIGSTOP); }
  ~StoppedProcess() { kill(process_, SIGCONT); }
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;

 private:
  pid_t process_;
};

TEST(LargeMessages, AreCopiedByTheReceiverDirectlyFromTheSendersMemory) {
  const Team team{.backend = "shm", .as = As::processes, .world = 2, .timeout = 5s};
  expect_ranks_succeed(team, [](const Backend& backend, int rank) {
    const at::Tensor tensor = rank == 0 ? numbers(4'000'000, 1) : at::zeros(4'000'000), place = at::zeros(2, at::kLong);
    if (rank == 0) {
      place[0] = getpid(), place[1] = reinterpret_cast<int64_t>(tensor.const_data_ptr());
      send(backend, place, 1)->wait();
      const auto sent = send(backend, tensor, 1, 1);
      recv(backend, at::zeros(1), 1)->wait();
      return void(sent->wait());
    }
    recv(backend, place, 0)->wait();
    // once rank 0 receives this small message, rank 0's large message is already in rank 1's mailbox
    send(backend, at::zeros(1), 0)->wait();
    const auto sender = place[0].item<pid_t>();
    char byte = 0;
    const auto* const there = reinterpret_cast<const char*>(place[1].item<int64_t>());
    if (!shm::copy_from_process(sender, there, &byte, 1)) return recv(backend, tensor, 0, 1)->wait(), void();
    {
      const StoppedProcess stopped(sender);
      recv(backend, tensor, 0, 1)->wait();
    }
    require_equal(tensor, numbers(4'000'000, 1), "message");
  });
}

// Makes the kernel refuse process_vm_readv() to this thread and to threads that it starts.
void forbid_reading_other_processes() {
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{.len = static_cast<unsigned short>(std::size(program)), .filter = program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    shm::throw_errno("installing a seccomp filter");
}

TEST(LargeMessages, AreSentInChunksIfTheOsForbidsReadingTheSendersMemory) {
  for (const int forbidden : {0, 1, 2})  // 2: both ranks
    expect_ranks_succeed({.backend = "shm", .as = As::processes, .world = 2}, [&](const Backend& backend, int rank) {
      if (forbidden == 2 || forbidden == rank) forbid_reading_other_processes();
      for (int round = 0; round < 3; ++round) {
        const at::Tensor first = numbers(several_chunks, rank), second = numbers(several_chunks + 1, rank + 9);
        const at::Tensor got_first = at::zeros_like(first), got_second = at::zeros_like(second);
        // Receive the second message first, so that the backend must keep the first message meanwhile.
        const std::vector<WorkPtr> works = {send(backend, first, 1 - rank, 1), send(backend, second, 1 - rank, 2),
                                            recv(backend, got_second, 1 - rank, 2),
                                            recv(backend, got_first, 1 - rank, 1)};
        for (const auto& work : works) work->wait();
        require_equal(got_first, numbers(several_chunks, 1 - rank), "first message");
        require_equal(got_second, numbers(several_chunks + 1, 10 - rank), "second message");
      }
    });
}

TEST(LargeMessages, AreNotDeliveredIfTheSenderAbortedBeforeTheReceive) {
  const auto errors =
      run_ranks({.backend = "shm", .as = As::processes, .world = 2}, [](const Backend& backend, int rank) {
        const at::Tensor tensor = numbers(several_chunks, rank);
        if (rank == 1) {
          std::this_thread::sleep_for(300ms);
          return void(recv(backend, tensor, 0)->wait());
        }
        const auto sent = send(backend, tensor, 1);
        std::this_thread::sleep_for(50ms);
        backend->abort();
        std::this_thread::sleep_for(1s);
      });
  EXPECT_TRUE(mentions(errors[1], {"rank 0", "gave up"}));
}

std::string name_of(const ::testing::TestParamInfo<MessagesArm>& arm) { return ::testing::PrintToString(arm.param); }
constexpr MessagesArm threads{"threads", As::threads}, shm{"shm", As::processes}, gloo{"gloo", As::processes},
    hosts_of_one{"shm", As::processes, 1}, hosts_of_two{"threads", As::threads, 2};
INSTANTIATE_TEST_SUITE_P(Over, Messages, ::testing::Values(threads, shm, gloo, hosts_of_one, hosts_of_two), name_of);
INSTANTIATE_TEST_SUITE_P(Over, MessageFaults, ::testing::Values(threads, shm), name_of);

}  // namespace
}  // namespace dpbench::testing
