// Every collective of every CPU backend, on inputs with exact results.
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "tests/unit/comm/comm_inputs.h"

namespace dpbench::testing {
namespace {

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong};

TEST(RequireEqual, ComparesShapeDtypeAndBitsAndNamesTheFirstDifferentElement) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto error_of = [](const at::Tensor& got, const at::Tensor& want) -> std::string {
    try {
      require_equal(got, want, "a sum");
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  const at::Tensor want = at::tensor({1.0, 0.0, nan}, at::kDouble);
  EXPECT_EQ(error_of(want.clone(), want), "");
  EXPECT_TRUE(
      says(error_of(at::tensor({1.0, -0.0, nan}, at::kDouble), want), "1 of 3 elements differ, the first is 1"));
  EXPECT_TRUE(says(error_of(at::tensor({2.0, 0.0, 0.0}, at::kDouble), want), "2 of 3 elements differ, the first is 0"));
  EXPECT_NE(error_of(want.to(at::kFloat), want), "");
  EXPECT_NE(error_of(want.reshape({3, 1}), want), "");
}

TEST_P(Collectives, AllreduceIsExactForSixDtypesAndSizesFromZeroAndItsAverageForTheFloatingPointOnes) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : kDtypes)
      for (const auto op : {Op::SUM, Op::MAX, Op::MIN, Op::AVG})
        for (const int64_t count : kCounts) {
          if (op == Op::AVG && !at::isFloatingType(dtype)) continue;
          if (count > kLarge && (op != Op::SUM || dtype != at::kFloat)) continue;
          const auto tensor = input_of(rank, count, dtype);
          allreduce(backend, tensor, op)->wait();
          require_equal(tensor, reduced(all_inputs(world(), count, dtype), op, dtype),
                        c10::str("allreduce ", int(op), " of ", count, " ", dtype));
        }
  });
}

// The messages exceed two slots (shared-memory buffers of 1 MiB) and are too large to be summed in the calling thread.
// All, no or every second rank's tensor is in shared memory.
TEST_P(Collectives, AllreduceOfLargeMessagesIsExactInPrivateAndSharedMemory) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const int64_t count : {700001, 1100003})
      for (const int shared_kinds : {0, 1, 2}) {
        auto tensor = input_of(rank, count);
        if (rank % 2 < shared_kinds && backend->supportsTensorAlloc(-1))
          tensor = backend->allocateTensor(count, tensor.options()).copy_(tensor);
        allreduce(backend, tensor)->wait();
        const auto want = (input_of(0, count) * world()).add_(8192.0 * world() * (world() - 1) / 2);
        require_equal(tensor, want, c10::str("allreduce of ", count, " shared kinds ", shared_kinds));
      }
  });
}

class BeyondASlot : public Collectives {};

// Messages fill two or three slots (shared-memory buffers of 1 MiB), the last slot only partly.
TEST_P(BeyondASlot, AllreduceOfMessagesAbove1MebibyteIsExact) {
  constexpr int64_t slot = 1 << 20;
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : kDtypes)
      for (const int64_t bytes : {slot + slot / 4, 2 * slot + slot / 4}) {
        const int64_t count = bytes / static_cast<int64_t>(c10::elementSize(dtype)) + 1;
        const auto all = all_inputs(world(), count, dtype);
        for (const auto op : {Op::SUM, Op::MAX, Op::AVG}) {
          if (op == Op::AVG && !at::isFloatingType(dtype)) continue;
          const auto tensor = all[rank].to(dtype, /*non_blocking=*/false, /*copy=*/true);
          allreduce(backend, tensor, op)->wait();
          require_equal(tensor, reduced(all, op, dtype), c10::str("allreduce ", int(op), " of ", count, " ", dtype));
        }
      }
  });
}

INSTANTIATE_TEST_SUITE_P(All, BeyondASlot,
                         ::testing::Values(Arm{"shm", As::processes, 3}, Arm{"shm", As::processes, 3, 2}), name_of);

TEST_P(Collectives, BroadcastGivesEveryRankTheTensorOfTheRoot) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : {at::kFloat, at::kInt, at::kByte, at::kBool, at::kComplexDouble})
      for (const int64_t count : kCounts) {
        const int root = static_cast<int>(count) % world();
        Tensors list{input_of(rank, count, dtype)};
        c10d::BroadcastOptions options;
        options.rootRank = root;
        backend->broadcast(list, options)->wait();
        require_equal(at::view_as_real(list[0].to(at::kComplexDouble)),
                      at::view_as_real(input_of(root, count, dtype).to(at::kComplexDouble)),
                      c10::str("broadcast ", count));
      }
  });
}

TEST_P(Collectives, AllgatherGivesEveryRanksTensorToAll) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : {at::kFloat, at::kLong, at::kByte})
      for (const int64_t count : kCounts) {
        if (count > kLarge && dtype != at::kFloat) continue;
        Tensors inputs{input_of(rank, count, dtype)}, outputs;
        for (int r = 0; r < world(); ++r) outputs.push_back(at::zeros(count, dtype));
        std::vector<Tensors> lists{outputs};
        backend->allgather(lists, inputs, {})->wait();
        for (int r = 0; r < world(); ++r) require_equal(lists[0][r], input_of(r, count, dtype), "allgather");

        auto flat = at::zeros(count * world(), dtype);
        backend->_allgather_base(flat, inputs[0], {})->wait();
        require_equal(flat, at::cat(outputs), "allgather_base");
      }
  });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsShareOfTheSum) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kInt})
      for (const int64_t count : kCounts) {
        if (count == 0 && GetParam().backend == std::string("gloo")) continue;  // gloo rejects empty tensors
        if (count > kLarge && dtype != at::kFloat) continue;
        const auto mine = input_of(rank, count * world(), dtype);
        const auto want = share_of_sum(world(), rank, count, dtype);
        auto output = at::zeros(count, dtype), input = mine.clone();
        backend->_reduce_scatter_base(output, input, {})->wait();
        require_equal(output, want, "reduce_scatter_base");

        Tensors outputs{at::zeros(count, dtype)};
        std::vector<Tensors> inputs{mine.clone().chunk(world())};
        backend->reduce_scatter(outputs, inputs, {})->wait();
        require_equal(outputs[0], want, "reduce_scatter");
      }
  });
}

TEST_P(Collectives, ReduceScatterIsExactForSixDtypesAndItsAverageForTheFloatingPointOnes) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : kDtypes)
      for (const auto op : {Op::SUM, Op::MAX, Op::MIN, Op::AVG})
        for (const int64_t count : {1, 97, 5003}) {
          if (op == Op::AVG && !at::isFloatingType(dtype)) continue;
          auto output = at::zeros(count, dtype), input = input_of(rank, count * world(), dtype);
          c10d::ReduceScatterOptions options;
          options.reduceOp = op;
          backend->_reduce_scatter_base(output, input, options)->wait();
          const auto whole = reduced(all_inputs(world(), count * world(), dtype), op, dtype);
          require_equal(output, whole.narrow(0, rank * count, count),
                        c10::str("reduce_scatter ", int(op), " of ", count, " ", dtype));
        }
  });
}

TEST_P(Collectives, ACoalescedCollectiveGivesEachTensorItsOwnResult) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : {at::kFloat, at::kLong}) {
      Tensors sums, gathered, shares, mine, scattered;
      for (const int64_t count : {1000, 3, 50021, 1, 97}) {
        sums.push_back(input_of(rank, count, dtype)), mine.push_back(input_of(rank, count, dtype));
        gathered.push_back(at::zeros(count * world(), dtype));
        scattered.push_back(input_of(rank, count * world(), dtype)), shares.push_back(at::zeros(count, dtype));
      }
      backend->allreduce_coalesced(sums, {})->wait();
      backend->allgather_into_tensor_coalesced(gathered, mine, {})->wait();
      backend->reduce_scatter_tensor_coalesced(shares, scattered, {})->wait();
      for (size_t i = 0; i < mine.size(); ++i) {
        const int64_t count = mine[i].numel();
        const auto all = all_inputs(world(), count, dtype);
        require_equal(sums[i], all.sum(0).to(dtype), "allreduce_coalesced");
        require_equal(gathered[i], all.flatten().to(dtype), "allgather_into_tensor_coalesced");
        require_equal(shares[i], share_of_sum(world(), rank, count, dtype), "reduce_scatter_tensor_coalesced");
      }
    }
  });
}

TEST_P(Collectives, BarrierBlocksEveryRankUntilAllHaveArrived) {
  const SharedNumbers<int> arrived;
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (int round = 1; round <= 20; ++round) {
      if (rank == round % world()) std::this_thread::sleep_for(std::chrono::microseconds(300));
      ++arrived[0];
      backend->barrier({})->wait();
      const int seen = arrived[0].load();
      if (seen < round * world())
        throw std::runtime_error(c10::str("passed when ", seen, " ranks had arrived in round ", round));
      backend->barrier({})->wait();
    }
  });
}

TEST_P(Collectives, ManyOutstandingAllreducesAreExactIfWaitedForInReverseOrder) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    Tensors tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 60; ++i) {
      tensors.push_back(input_of(rank, kCounts[i % 9] + i));
      works.push_back(allreduce(backend, tensors.back()));
    }
    for (int i = 59; i >= 0; --i) {
      works[i]->wait();
      require_equal(tensors[i], all_inputs(world(), kCounts[i % 9] + i, at::kFloat).sum(0).to(at::kFloat),
                    "outstanding");
    }
  });
}

std::vector<Arm> arms() {
  std::vector<Arm> all;
  for (const int world : {1, 2, 3, 4, 7, 8})
    for (const auto& [backend, as] :
         {std::pair{"threads", As::threads}, {"shm", As::processes}, {"gloo", As::processes}})
      all.push_back({backend, as, world});
  all.push_back({"threads", As::threads, 4, 2});
  all.push_back({"threads", As::threads, 5, 3});
  for (const auto& [world, per_host] : {std::pair{2, 1}, {3, 2}, {4, 2}, {7, 3}, {8, 4}})
    all.push_back({"shm", As::processes, world, per_host});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, ::testing::ValuesIn(arms()), name_of);

}  // namespace
}  // namespace dpbench::testing
