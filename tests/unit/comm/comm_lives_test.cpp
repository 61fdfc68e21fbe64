// Callers may destroy inputs, Work objects or the backend before a collective ends. Tensor lists of the wrong length
// are rejected.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/ranks/comm_ranks.h"

namespace dpbench::testing {
namespace {

using Backend = c10::intrusive_ptr<c10d::Backend>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

struct Arm {
  const char *name, *backend;
  As as;
  int world, per_host = 0;
};
void PrintTo(const Arm& arm, std::ostream* out) { *out << arm.name; }

class Lifetimes : public ::testing::TestWithParam<Arm> {
 protected:
  Team team() const {
    const Arm& arm = GetParam();
    return {.backend = arm.backend, .as = arm.as, .world = arm.world, .per_host = arm.per_host};
  }
};

at::Tensor input_of(int rank, int64_t count, int call) {
  return (at::arange(count) + call).remainder(97).add_(rank).to(at::kFloat);
}

at::Tensor sum_of_inputs(int world, int64_t count, int call) {
  at::Tensor sum = at::zeros(count);
  for (int r = 0; r < world; ++r) sum += input_of(r, count, call);
  return sum;
}

// Starts a reduce-scatter. Its inputs are destroyed on return, even if the reduce-scatter still runs. Some sizes exceed
// a slot, the shared-memory buffer of a rank.
WorkPtr start_reduce_scatter(const Backend& backend, at::Tensor& share, int rank, int world, int call) {
  const int64_t count = share.numel();
  if (call % 2 == 0) {
    at::Tensor input = input_of(rank, count * world, call);
    return backend->_reduce_scatter_base(share, input, {});
  }
  Tensors shares{share};
  std::vector<Tensors> inputs(1);
  for (int r = 0; r < world; ++r)
    inputs[0].push_back(input_of(rank, count * world, call).narrow(0, r * count, count).clone());
  return backend->reduce_scatter(shares, inputs, {});
}

constexpr int64_t kShares[] = {1, 0, 5, 1021, 0, 70001, 300007};

TEST_P(Lifetimes, InputsAndWorkObjectsMayBeDestroyedBeforeTheCollectiveEnds) {
  const int world = GetParam().world;
  expect_ranks_succeed(team(), [=](const Backend& backend, int rank) {
    Tensors shares;
    for (int call = 0; call < 42; ++call) {
      shares.push_back(at::zeros(kShares[call % 7]));
      start_reduce_scatter(backend, shares.back(), rank, world, call);
      // This tensor reuses freed memory, so that a read of a destroyed input finds -1.
      at::empty(kShares[(call + 3) % 7] + 1).fill_(-1);
    }
    backend->barrier({})->wait();
    for (int call = 0; call < 42; ++call) {
      const int64_t count = kShares[call % 7];
      require_equal(shares[static_cast<size_t>(call)],
                    sum_of_inputs(world, count * world, call).narrow(0, rank * count, count), c10::str("call ", call));
    }
  });
}

TEST_P(Lifetimes, OutputsMayBeDestroyedBeforeTheCollectiveEnds) {
  const int world = GetParam().world;
  expect_ranks_succeed(team(), [=](const Backend& backend, int rank) {
    for (int call = 0; call < 42; ++call) {
      at::Tensor share = at::zeros(kShares[call % 7]);
      start_reduce_scatter(backend, share, rank, world, call);
    }
    backend->barrier({})->wait();
  });
}

TEST_P(Lifetimes, DestroyingABackendFailsPendingCalls) {
  const int world = GetParam().world;
  std::vector<BackendSetup> setups(static_cast<size_t>(world));
  Team all = team();
  all.adjust = [&](BackendSetup& setup) { setups[static_cast<size_t>(setup.rank)] = setup; };
  expect_ranks_succeed(all, [&](const Backend& backend, int rank) {
    for (int round = 0; round < 5; ++round) {
      BackendSetup setup = setups[static_cast<size_t>(rank)];
      setup.store = c10::make_intrusive<c10d::PrefixStore>(c10::str("round-", round), setup.store);
      Backend doomed = backend_registry().at(GetParam().backend).make(setup);
      backend->barrier({})->wait();  // no rank may leave before all have joined
      std::vector<WorkPtr> works;
      Tensors shares;
      // rank 1 does not call the collectives that the other ranks start
      for (int call = 0; rank != 1 && call < 7; ++call) {
        shares.push_back(at::zeros(kShares[call]));
        try {
          works.push_back(start_reduce_scatter(doomed, shares.back(), rank, world, call));
        } catch (const std::exception&) {
          break;  // another rank has already left, so later collectives fail at once
        }
      }
      doomed.reset();
      for (const auto& work : works) {
        bool failed = false;
        try {
          work->wait();
        } catch (const std::exception&) {
          failed = true;
        }
        if (!failed) throw std::runtime_error("a call that rank 1 did not make has succeeded");
      }
      backend->barrier({})->wait();
    }
  });
}

template <class Call>
void require_rejected(Call call, const std::string& word) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    if (std::string(error.what()).find(word) != std::string::npos) return;
    throw std::runtime_error(std::string("unexpected message: ") + error.what());
  }
  throw std::runtime_error("not refused: " + word);
}

TEST(Lists, TensorListsOfTheWrongLengthAreRejectedWithoutAffectingPeers) {
  expect_ranks_succeed({.backend = "threads", .as = As::threads, .world = 3}, [](const Backend& backend, int rank) {
    const auto ones = [](size_t count) { return Tensors(count, at::ones(4)); };
    if (rank == 0) {
      Tensors one = ones(1), none, four = ones(4);
      std::vector<Tensors> two_of{ones(2)}, four_of{ones(4)}, two_lists{ones(3), ones(3)}, no_list;
      require_rejected([&] { backend->reduce_scatter(one, two_of, {}); }, "2 inputs");
      require_rejected([&] { backend->reduce_scatter(one, four_of, {}); }, "4 inputs");
      require_rejected([&] { backend->reduce_scatter(one, two_lists, {}); }, "list");
      require_rejected([&] { backend->reduce_scatter(one, no_list, {}); }, "list");
      require_rejected([&] { backend->allgather(four_of, one, {}); }, "4 outputs");
      require_rejected([&] { backend->gather(two_of, one, {}); }, "2 outputs");
      require_rejected([&] { backend->scatter(one, two_of, {}); }, "2 inputs");
      require_rejected([&] { backend->alltoall(four, four, {}); }, "4 outputs");
      require_rejected([&] { backend->allreduce_coalesced(none, {}); }, "tensor");
      require_rejected([&] { backend->reduce_scatter_tensor_coalesced(none, none, {}); }, "tensor");
      require_rejected([&] { backend->allgather_into_tensor_coalesced(one, none, {}); }, "0 inputs");
    }
    Tensors sum = ones(1);
    backend->allreduce(sum)->wait();
    require_equal(sum[0], at::full(4, 3.0), "afterwards");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Lifetimes,
                         ::testing::Values(Arm{"threads2", "threads", As::threads, 2},
                                           Arm{"threads3", "threads", As::threads, 3},
                                           Arm{"shm3", "shm", As::processes, 3}, Arm{"shm8", "shm", As::processes, 8},
                                           Arm{"hosts", "shm", As::processes, 4, 2}),
                         [](const auto& arm) { return arm.param.name; });

}  // namespace
}  // namespace dpbench::testing
