// Test inputs for collectives with exactly representable results, and the combinations of backend and ranks to test.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/ranks/comm_ranks.h"

namespace dpbench::testing {

using Backend = c10::intrusive_ptr<c10d::Backend>;
using Tensors = std::vector<at::Tensor>;
using Op = c10d::ReduceOp;

inline constexpr int64_t kCounts[] = {0, 1, 2, 3, 7, 97, 1000, 4099, 50021, 300007};
inline constexpr int64_t kLarge = 40000;  // inputs with more elements are tested with one element type only

// Returns `count` integers that differ between ranks and between neighbours; `first` is the index of the first element.
// Narrow types get small values, so that sums over eight ranks stay exact.
inline at::Tensor input_of(int rank, int64_t count, at::ScalarType dtype = at::kFloat, int64_t first = 0) {
  const bool narrow = dtype == at::kBFloat16 || dtype == at::kHalf || dtype == at::kByte;
  const auto index = at::arange(first, first + count, at::kLong);
  return (narrow ? (index * 7 + rank * 3).remainder(11) + rank : index.remainder(8191) + 8192 * rank).to(dtype);
}

inline at::Tensor all_inputs(int world, int64_t count, at::ScalarType dtype) {
  Tensors inputs;
  for (int r = 0; r < world; ++r) inputs.push_back(input_of(r, count, dtype).to(at::kDouble));
  return at::stack(inputs);
}

// Returns the `count` elements that a reduce-scatter gives to `rank`: its part of the sum over all inputs, which have
// count * world elements each.
inline at::Tensor share_of_sum(int world, int rank, int64_t count, at::ScalarType dtype) {
  auto sum = at::zeros(count, at::kDouble);
  for (int r = 0; r < world; ++r) sum += input_of(r, count, dtype, rank * count);
  return sum.to(dtype);
}

inline at::Tensor reduced(const at::Tensor& all, Op::RedOpType op, at::ScalarType dtype) {
  const auto result = op == Op::SUM   ? all.sum(0)
                      : op == Op::AVG ? all.sum(0) / all.size(0)
                      : op == Op::MAX ? all.amax(0)
                                      : all.amin(0);
  return result.to(dtype);
}

inline c10::intrusive_ptr<c10d::Work> allreduce(const Backend& backend, const at::Tensor& tensor,
                                                Op::RedOpType op = Op::SUM) {
  Tensors list{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  return backend->allreduce(list, options);
}

// A test configuration: a backend and its ranks, all on one host or `per_host` ranks on each host.
struct Arm {
  const char* backend;
  As as;
  int world;
  int per_host = 0;
};

inline void PrintTo(const Arm& arm, std::ostream* out) { *out << arm.backend << ' ' << arm.world; }

inline std::string name_of(const ::testing::TestParamInfo<Arm>& info) {
  const Arm& arm = info.param;
  return c10::str(arm.backend, arm.as == As::threads ? "Threads" : "Processes", arm.world,
                  arm.per_host ? c10::str("HostsOf", arm.per_host) : "");
}

class Collectives : public ::testing::TestWithParam<Arm> {
 protected:
  Team team() const {
    const Arm& arm = GetParam();
    return {.backend = arm.backend, .as = arm.as, .world = arm.world, .per_host = arm.per_host};
  }
  int world() const { return GetParam().world; }
};

}  // namespace dpbench::testing
