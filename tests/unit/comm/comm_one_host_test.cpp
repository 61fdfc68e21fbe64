// Collectives that no built-in strategy calls, only plug-ins. They are supported on a single host only.
#include "tests/support/contains.h"
#include "tests/unit/comm/comm_inputs.h"

namespace dpbench::testing {
namespace {

class SingleHost : public Collectives {
 protected:
  bool gloo() const { return GetParam().backend == std::string("gloo"); }
};

// the backends of these tests exclude gloo, which has no alltoall for lists of tensors
class SingleHostExceptGloo : public Collectives {};

// Returns the tensor that rank `from` sends to rank `to`.
at::Tensor sent(int from, int to, int64_t count, at::ScalarType dtype) { return input_of(from, count, dtype) + to; }

TEST_P(SingleHost, ReduceGivesTheRootTheResultAndLeavesOtherInputsUntouched) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong})
      for (const auto op : {Op::SUM, Op::MAX, Op::AVG})
        for (const int64_t count : kCounts) {
          if (op == Op::AVG && (gloo() || !at::isFloatingType(dtype))) continue;
          if (count > kLarge && (op != Op::SUM || dtype != at::kFloat)) continue;
          c10d::ReduceOptions options;
          options.reduceOp = op;
          options.rootRank = count % world();
          Tensors list{input_of(rank, count, dtype)};
          backend->reduce(list, options)->wait();
          if (rank == options.rootRank)
            require_equal(list[0], reduced(all_inputs(world(), count, dtype), op, dtype), c10::str("reduce ", count));
          else if (!gloo())
            require_equal(list[0], input_of(rank, count, dtype), "input after reduce");
        }
  });
}

TEST_P(SingleHost, GatherGivesTheRootEveryRanksTensor) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : {at::kFloat, at::kLong, at::kByte})
      for (const int64_t count : kCounts) {
        c10d::GatherOptions options;
        options.rootRank = count % world();
        Tensors inputs{input_of(rank, count, dtype)}, outputs;
        for (int r = 0; r < world(); ++r) outputs.push_back(at::zeros(count, dtype));
        std::vector<Tensors> lists;
        if (rank == options.rootRank) lists.push_back(outputs);
        backend->gather(lists, inputs, options)->wait();
        for (int r = 0; rank == options.rootRank && r < world(); ++r)
          require_equal(outputs[r], input_of(r, count, dtype), c10::str("gather ", count));
      }
  });
}

TEST_P(SingleHost, ScatterGivesEachRankItsTensorFromTheRoot) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : {at::kFloat, at::kLong, at::kByte})
      for (const int64_t count : kCounts) {
        c10d::ScatterOptions options;
        const int root = static_cast<int>(options.rootRank = count % world());
        Tensors outputs{at::zeros(count, dtype)}, inputs;
        for (int r = 0; r < world(); ++r) inputs.push_back(sent(root, r, count, dtype));
        std::vector<Tensors> lists;
        if (rank == root) lists.push_back(inputs);
        backend->scatter(outputs, lists, options)->wait();
        require_equal(outputs[0], sent(root, rank, count, dtype), c10::str("scatter ", count));
      }
  });
}

TEST_P(SingleHostExceptGloo, AlltoallGivesEachRankItsTensorFromEveryRank) {
  expect_ranks_succeed(team(), [&](const Backend& backend, int rank) {
    for (const auto dtype : {at::kFloat, at::kLong, at::kByte})
      for (const int64_t count : kCounts) {
        Tensors inputs, outputs;
        for (int r = 0; r < world(); ++r)
          inputs.push_back(sent(rank, r, count, dtype)), outputs.push_back(at::zeros(count, dtype));
        backend->alltoall(outputs, inputs, {})->wait();
        for (int r = 0; r < world(); ++r)
          require_equal(outputs[r], sent(r, rank, count, dtype), c10::str("alltoall ", count));
      }
  });
}

TEST(SeveralHosts, ReduceIsRejectedAsUnsupportedAndTheGroupStaysUsable) {
  expect_ranks_succeed({.backend = "shm", .as = As::processes, .world = 3, .per_host = 2},
                       [](const Backend& backend, int) {
                         Tensors list{at::ones(4)};
                         try {
                           backend->reduce(list, {})->wait();
                           throw std::logic_error("reduce was accepted");
                         } catch (const c10::Error& error) {
                           if (!mentions(error.what(), {"shm", "reduce"})) throw;
                         }
                         allreduce(backend, list[0])->wait();
                         require_equal(list[0], at::full(4, 3.0), "afterwards");
                       });
}

std::vector<Arm> arms_of(const std::vector<std::pair<const char*, As>>& backends) {
  std::vector<Arm> all;
  for (const int world : {1, 2, 3, 4, 7, 8})
    for (const auto& [backend, as] : backends) all.push_back({backend, as, world});
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    All, SingleHost,
    ::testing::ValuesIn(arms_of({{"threads", As::threads}, {"shm", As::processes}, {"gloo", As::processes}})), name_of);
INSTANTIATE_TEST_SUITE_P(All, SingleHostExceptGloo,
                         ::testing::ValuesIn(arms_of({{"threads", As::threads}, {"shm", As::processes}})), name_of);

}  // namespace
}  // namespace dpbench::testing
