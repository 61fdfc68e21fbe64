// Properties that only the shm (shared memory) backend has: sums in rank order on every code path, and no busy waiting
// when ranks share cores.
#include <future>
#include <memory>
#include <thread>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "strategies/comm/shm/host_group.h"
#include "tests/support/own_cores.h"
#include "tests/unit/comm/comm_inputs.h"
#include "workloads/base/cores.h"

namespace dpbench::testing {
namespace {

class InRankOrder : public Collectives {};

// Returns fractions of very different magnitude. Nearly every sum rounds, so another order of addition gives other
// bits.
at::Tensor rough_input(int rank, int64_t count, at::ScalarType dtype) {
  const auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(100 + rank));
  const auto size = at::randint(0, 6, {count}, generator, at::kDouble);
  return (at::randn({count}, generator, at::kDouble) * at::exp(size)).to(dtype);
}

// Returns the sum over the ranks, added in the given order. 16-bit types are added in float32 and rounded once.
at::Tensor plain_sum(const std::vector<int>& ranks, int64_t count, at::ScalarType dtype) {
  const bool narrow = dtype == at::kBFloat16 || dtype == at::kHalf;
  auto sum = rough_input(ranks[0], count, dtype).to(narrow ? at::kFloat : dtype);
  for (size_t i = 1; i < ranks.size(); ++i) sum += rough_input(ranks[i], count, dtype).to(sum.scalar_type());
  return sum.to(dtype);
}

// Every rank and every run gives the same bits. The sizes cover all code paths: up to 16 kB each rank sums everything,
// above it each rank sums one piece, and the largest exceed two slots (buffers) of 1 MiB. Tensors are in private memory
// or in shared memory, which shm reads in place. Only world 3 runs the largest sizes.
TEST_P(InRankOrder, AllreduceRoundsLikeAPlainLoopOverTheRanks) {
  std::vector<int> ranks(static_cast<size_t>(world()));
  for (int r = 0; r < world(); ++r) ranks[static_cast<size_t>(r)] = r;
  const std::vector<int> reverse(ranks.rbegin(), ranks.rend());
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
      for (const int64_t count : {97, 4096, 4099, 50021, 300007, 1100003}) {
        const bool is_long = count > (dtype == at::kFloat ? 300007 : kLarge);
        if (is_long && world() != 3) continue;
        // 300,007 elements of float64 already fill three slots (1 MiB buffers), so larger counts are left out
        if (count > 300007 && dtype == at::kDouble) continue;
        const auto mine = rough_input(rank, count, dtype), want = plain_sum(ranks, count, dtype);
        if (dtype == at::kFloat && at::equal(plain_sum(reverse, count, dtype), want))
          throw std::logic_error("these inputs do not depend on the order");
        for (int run = 0; run < 2; ++run)
          for (const int shared_kinds : {0, 1, 2}) {
            auto tensor = mine.clone();
            if (rank % 2 < shared_kinds) tensor = backend->allocateTensor(count, tensor.options()).copy_(tensor);
            allreduce(backend, tensor)->wait();
            require_equal(tensor, want,
                          c10::str("allreduce of ", count, " ", dtype, " shared kinds ", shared_kinds, " run ", run));
          }
      }
  });
}

TEST_P(InRankOrder, ReduceScatterRoundsLikeAPlainLoopOverTheRanks) {
  std::vector<int> ranks(static_cast<size_t>(world()));
  for (int r = 0; r < world(); ++r) ranks[static_cast<size_t>(r)] = r;
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const int64_t count : {97, 4099, 50021}) {
      auto share = at::zeros(count), input = rough_input(rank, count * world(), at::kFloat);
      backend->_reduce_scatter_base(share, input, {})->wait();
      require_equal(share, plain_sum(ranks, count * world(), at::kFloat).narrow(0, rank * count, count),
                    c10::str("reduce_scatter of ", count));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, InRankOrder,
                         ::testing::Values(Arm{"threads", As::threads, 3}, Arm{"threads", As::threads, 4},
                                           Arm{"shm", As::processes, 3}, Arm{"shm", As::processes, 4}),
                         name_of);

class Callbacks : public Collectives {};

// PyTorch's PowerSGD hook waits for a collective in the callback of another one. The large array is reduced in the
// backend's own thread, which also runs the callback.
TEST_P(Callbacks, OfACollectiveMayWaitForAnotherCollective) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    const auto large = input_of(rank, 1100003), small = input_of(rank, 97);
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto done = std::make_shared<std::promise<void>>();
    allreduce(backend, large)->getFuture()->addCallback([&, done](c10::ivalue::Future&) {
      try {
        allreduce(backend, small)->wait(std::chrono::seconds(5));
        done->set_value();
      } catch (...) {
        done->set_exception(std::current_exception());
      }
    });
    done->get_future().get();
    require_equal(small, reduced(all_inputs(world(), 97, at::kFloat), Op::SUM, at::kFloat), "sum of the callback");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Callbacks,
                         ::testing::Values(Arm{"threads", As::threads, 2}, Arm{"shm", As::processes, 3}), name_of);

// Each host sums its own ranks before gloo adds the sums of the hosts. The bits differ from a sum in rank order, but
// are the same on every rank and in every run.
TEST(AcrossHosts, SumsHaveTheSameBitsInEveryRunAndOnEveryRank) {
  constexpr int world = 5, per_host = 2;
  std::vector<std::vector<Tensors>> sums(2, std::vector<Tensors>(world));
  for (auto& of_rank : sums)
    expect_ranks_succeed({.backend = "threads", .as = As::threads, .world = world, .per_host = per_host},
                         [&](const Backend& backend, int rank) {
                           for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
                             for (const int64_t count : {97, 4099, 300007}) {
                               of_rank[rank].push_back(rough_input(rank, count, dtype));
                               allreduce(backend, of_rank[rank].back())->wait();
                             }
                         });
  const Tensors& first = sums[0][0];
  ASSERT_EQ(first.size(), 12u);
  EXPECT_FALSE(at::equal(first[2], plain_sum({0, 1, 2, 3, 4}, 300007, at::kFloat)))
      << "these inputs do not depend on the order";
  for (size_t run = 0; run < 2; ++run)
    for (size_t rank = 0; rank < world; ++rank)
      for (size_t i = 0; i < first.size(); ++i)
        EXPECT_TRUE(at::equal(sums[run][rank].at(i), first[i]))
            << "sum " << i << " of rank " << rank << " in run " << run;
}

// Returns the n-th CPU core that this process may use.
std::vector<int> only_core(int n) { return {own_cores().at(static_cast<size_t>(n))}; }

// Pins two ranks to the cores that `cores(rank)` returns. Expects the group to be crowded (more ranks than cores) if
// `crowded` is true, otherwise not.
void expect_crowded(bool crowded, const std::function<std::vector<int>(int rank)>& cores) {
  std::vector<BackendSetup> setups(2);
  Team team{.backend = "shm", .as = As::processes, .world = 2};
  team.adjust = [&](BackendSetup& setup) { setups[static_cast<size_t>(setup.rank)] = setup; };
  expect_ranks_succeed(team, [&](const Backend&, int rank) {
    BackendSetup setup = setups[static_cast<size_t>(rank)];
    setup.store = c10::make_intrusive<c10d::PrefixStore>("pinned", setup.store);
    const OnCores mine(cores(rank));
    const shm::HostGroup group(setup, shm::Home::processes, 4096, 0);
    if (group.crowded() != crowded)
      throw std::runtime_error(crowded ? "not crowded with two ranks on a core" : "crowded with a core a rank");
  });
}

TEST(Cores, AreOversubscribedOnlyIfAGroupHasMoreRanksThanAllowedCores) {
  expect_crowded(true, [](int) { return only_core(0); });
  if (own_cores().size() < 2) GTEST_SKIP() << "one core";
  expect_crowded(false, [](int rank) { return only_core(rank); });
  expect_crowded(false, [](int) { return own_cores(); });
}

}  // namespace
}  // namespace dpbench::testing
