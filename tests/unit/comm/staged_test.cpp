// StagedBackend runs collectives of device tensors through copies in host memory. Here the CPU is the device, so
// everything but pinned memory is tested without a GPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "strategies/comm/base/staged.h"
#include "tests/ranks/comm_ranks.h"
#include "tests/support/contains.h"

namespace dpbench::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr int kRanks = 3;
// Tensor sizes in elements. In float64, the first two sizes fit into a slot (shared-memory buffer of 1 MiB). The third
// takes three slots, and the host backend runs it on its own thread.
constexpr int64_t kSizes[] = {1, 1000, 300007};

void expect_staged(const Body& body) {
  expect_ranks_succeed({.backend = "threads", .world = kRanks}, [&](const auto& backend, int rank) {
    body(c10::make_intrusive<StagedBackend>(backend, at::kCPU), rank);
  });
}

at::Tensor input_of(int rank, int64_t count) { return at::arange(count, at::kDouble).remainder(97) + 100 * rank; }

TEST(StagedBackend, CollectivesGiveExactResults) {
  expect_staged([](const auto& backend, int rank) {
    for (const int64_t count : kSizes) {
      const at::Tensor sum = input_of(0, count) + input_of(1, count) + input_of(2, count);
      Tensors mine{input_of(rank, count)};
      backend->allreduce(mine, {})->wait();
      require_equal(mine[0], sum, "allreduce");

      mine = {input_of(rank, count)};
      c10d::BroadcastOptions from_last;
      from_last.rootRank = kRanks - 1;
      backend->broadcast(mine, from_last)->wait();
      require_equal(mine[0], input_of(kRanks - 1, count), "broadcast");

      Tensors all;
      for (int r = 0; r < kRanks; ++r) all.push_back(at::zeros({count}, at::kDouble));
      std::vector<Tensors> lists{all};
      mine = {input_of(rank, count)};
      backend->allgather(lists, mine, {})->wait();
      for (int r = 0; r < kRanks; ++r) require_equal(lists[0][static_cast<size_t>(r)], input_of(r, count), "allgather");

      at::Tensor whole = at::zeros({kRanks * count}, at::kDouble), piece = at::zeros({count}, at::kDouble);
      backend->_allgather_base(whole, mine[0], {})->wait();
      require_equal(whole, at::cat({input_of(0, count), input_of(1, count), input_of(2, count)}), "_allgather_base");
      backend->_reduce_scatter_base(piece, whole, {})->wait();
      require_equal(piece, input_of(rank, count) * kRanks, "_reduce_scatter_base");
      Tensors pieces{piece};
      std::vector<Tensors> wholes{Tensors(kRanks, mine[0])};
      backend->reduce_scatter(pieces, wholes, {})->wait();
      require_equal(pieces[0], sum, "reduce_scatter");

      std::vector<int64_t> even;
      whole.zero_();
      at::Tensor sent = at::cat({mine[0], mine[0] + 1, mine[0] + 2});
      backend->alltoall_base(whole, sent, even, even, {})->wait();
      require_equal(whole, at::cat({input_of(0, count), input_of(1, count), input_of(2, count)}) + rank,
                    "alltoall_base");
    }
    backend->barrier({})->wait();
  });
}

TEST(StagedBackend, RootedAndCoalescedCollectivesGiveExactResults) {
  expect_staged([](const auto& backend, int rank) {
    constexpr int64_t count = 1000;
    constexpr int root = 1;
    const at::Tensor sum = input_of(0, count) + input_of(1, count) + input_of(2, count);
    Tensors mine{input_of(rank, count)};
    c10d::ReduceOptions to_root;
    to_root.rootRank = root;
    backend->reduce(mine, to_root)->wait();
    if (rank == root) require_equal(mine[0], sum, "reduce");

    mine = {input_of(rank, count)};
    std::vector<Tensors> lists;
    if (rank == root) lists.emplace_back().assign(kRanks, at::Tensor());
    for (Tensors& list : lists)
      for (at::Tensor& one : list) one = at::zeros({count}, at::kDouble);
    c10d::GatherOptions gathering;
    gathering.rootRank = root;
    backend->gather(lists, mine, gathering)->wait();
    for (int r = 0; rank == root && r < kRanks; ++r)
      require_equal(lists[0][static_cast<size_t>(r)], input_of(r, count), "gather");

    Tensors received{at::zeros({count}, at::kDouble)};
    c10d::ScatterOptions scattering;
    scattering.rootRank = root;
    backend->scatter(received, lists, scattering)->wait();
    require_equal(received[0], input_of(rank, count), "scatter");

    Tensors sent, all;
    for (int r = 0; r < kRanks; ++r)
      sent.push_back(input_of(rank, count) + r), all.push_back(at::zeros({count}, at::kDouble));
    backend->alltoall(all, sent, {})->wait();
    for (int r = 0; r < kRanks; ++r) require_equal(all[static_cast<size_t>(r)], input_of(r, count) + rank, "alltoall");

    Tensors two{input_of(rank, count), input_of(rank, 3)};
    backend->allreduce_coalesced(two, {})->wait();
    require_equal(two[0], sum, "allreduce_coalesced");
    Tensors wholes{at::zeros({kRanks * count}, at::kDouble)}, pieces{input_of(rank, count)};
    backend->allgather_into_tensor_coalesced(wholes, pieces, {})->wait();
    require_equal(wholes[0], at::cat({input_of(0, count), input_of(1, count), input_of(2, count)}), "allgather");
    backend->reduce_scatter_tensor_coalesced(pieces, wholes, {})->wait();
    require_equal(pieces[0], input_of(rank, count) * kRanks, "reduce_scatter");
  });
}

TEST(StagedBackend, AReceivedTensorHoldsTheSentValuesAfterTheWait) {
  expect_staged([](const auto& backend, int rank) {
    for (const int64_t count : kSizes) {
      Tensors sent{input_of(rank, count)}, received{at::zeros({count}, at::kDouble)};
      const auto receiving = backend->recv(received, (rank + kRanks - 1) % kRanks, 7);
      const auto sending = backend->send(sent, (rank + 1) % kRanks, 7);
      sent[0].zero_();  // zeroing the tensor does not change the message: the backend sends its copy in host memory
      receiving->wait(), sending->wait();
      require_equal(received[0], input_of((rank + kRanks - 1) % kRanks, count), "recv");
    }
  });
}

TEST(StagedBackend, TheFutureOfACollectiveHoldsItsOutputs) {
  expect_staged([](const auto& backend, int rank) {
    Tensors mine{input_of(rank, 300007)};
    const auto future = backend->allreduce(mine, {})->getFuture();
    future->wait();
    require_equal(future->value().toTensorVector().at(0),
                  input_of(0, 300007) + input_of(1, 300007) + input_of(2, 300007), "value");
  });
}

TEST(StagedBackend, BroadcastGivesAParameterInChannelsLastFormatTheValuesOfTheRoot) {
  expect_staged([](const auto& backend, int rank) {
    at::Tensor parameter =
        (at::arange(24, at::kDouble).view({2, 3, 2, 2}) + rank).contiguous(at::MemoryFormat::ChannelsLast);
    parameter.requires_grad_();
    Tensors list{parameter};
    backend->broadcast(list, {})->wait();
    require_equal(parameter.detach(), at::arange(24, at::kDouble).view({2, 3, 2, 2}), "parameter");
  });
}

TEST(StagedBackend, RethrowsErrorsOfTheHostBackend) {
  const auto errors = run_ranks({.backend = "threads", .world = kRanks}, [](const auto& backend, int rank) {
    const auto staged = c10::make_intrusive<StagedBackend>(backend, at::kCPU);
    Tensors mine{at::ones({rank == 1 ? 7 : 5})};
    staged->allreduce(mine, {})->wait();
  });
  for (const auto& text : errors) EXPECT_TRUE(mentions(text, {"allreduce"}));
}

}  // namespace
}  // namespace dpbench::testing
