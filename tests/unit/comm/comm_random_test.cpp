// Ten thousand random collectives over each backend, several outstanding at once, compared with plain sums. Also c10d's
// Reducer, which DDP uses, over each backend.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <deque>
#include <random>

#include "strategies/comm/shm/blocks.h"
#include "tests/ranks/comm_ranks.h"

namespace dpbench::testing {
namespace {

using Backend = c10::intrusive_ptr<c10d::Backend>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using Op = c10d::ReduceOp;

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong};
constexpr Op::RedOpType kOps[] = {Op::SUM, Op::MAX, Op::MIN, Op::AVG};

// Number of random calls for each world size, {world, calls}: ten thousand in total. Large worlds get few, because gloo
// with 8 ranks makes only 25 calls a second on 2 cores.
constexpr std::pair<int, int> kCalls[] = {{1, 1700}, {2, 4000}, {3, 3000}, {4, 900}, {7, 200}, {8, 200}};

enum Kind { allreduce, broadcast, allgather, allgather_base, reduce_scatter, reduce_scatter_base, barrier, kinds };

// An outstanding collective with its expected output.
struct Pending {
  WorkPtr work;
  at::Tensor output, want;
  std::string what;

  void finish() const { work->wait(), require_equal(output, want, what); }
};

// Draws the same random collectives on every rank.
class RandomCalls {
 public:
  // `least` is the smallest number of elements per rank in a reduce-scatter: 1 for gloo, which cannot scatter 0
  // elements.
  RandomCalls(uint64_t seed, int rank, int world, int64_t least)
      : random_(seed), rank_(rank), world_(world), least_(least) {}

  Pending start(const Backend& backend, int call) {
    const auto kind = static_cast<Kind>(below(kinds));
    const int root = below(world_);
    const auto dtype = kDtypes[below(6)];
    const auto op = kOps[at::isFloatingType(dtype) ? below(4) : below(3)];
    const bool scatters = kind == reduce_scatter || kind == reduce_scatter_base;
    const int64_t count = (scatters ? least_ : 0) + (below(20) == 0 ? below(60000) : below(300));
    all_.clear();
    for (int r = 0; r < world_; ++r) all_.push_back(input(r, call, scatters ? world_ * count : count, dtype));
    auto pending = start(backend, kind, op, root);
    pending.what = c10::str("call ", call, " kind ", int(kind), " op ", int(op), " of ", count, " ", dtype);
    return pending;
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % limit); }

  // Returns integers so small that sums over eight ranks are exact in bfloat16.
  static at::Tensor input(int rank, int call, int64_t count, at::ScalarType dtype) {
    return (at::arange(count, at::kLong) * 5 + rank * 7 + call).remainder(17).add_(rank).to(dtype);
  }

  at::Tensor reduced(Op::RedOpType op) const {
    const auto all = at::stack(all_).to(at::kDouble);
    const auto result = op == Op::SUM   ? all.sum(0)
                        : op == Op::AVG ? all.sum(0) / world_
                        : op == Op::MAX ? all.amax(0)
                                        : all.amin(0);
    return result.to(all_[0].scalar_type());
  }

  at::Tensor my_share(const at::Tensor& whole) const {
    const int64_t count = whole.numel() / world_;
    return whole.narrow(0, rank_ * count, count);
  }

  Pending start(const Backend& backend, Kind kind, Op::RedOpType op, int root) {
    at::Tensor mine = all_[rank_].clone();
    Tensors list{mine};
    c10d::AllreduceOptions reducing;
    c10d::ReduceScatterOptions scattering;
    c10d::BroadcastOptions sending;
    reducing.reduceOp = scattering.reduceOp = op;
    sending.rootRank = root;
    const auto zeros = [&](int64_t count) { return at::zeros(count, mine.scalar_type()); };
    switch (kind) {
      case allreduce:
        return {backend->allreduce(list, reducing), mine, reduced(op), ""};
      case broadcast:
        return {backend->broadcast(list, sending), mine, all_[root], ""};
      case allgather: {
        auto whole = zeros(mine.numel() * world_);
        std::vector<Tensors> lists(1);
        for (int r = 0; r < world_; ++r) lists[0].push_back(whole.narrow(0, r * mine.numel(), mine.numel()));
        return {backend->allgather(lists, list, {}), whole, at::cat(all_), ""};
      }
      case allgather_base: {
        auto whole = zeros(mine.numel() * world_);
        return {backend->_allgather_base(whole, mine, {}), whole, at::cat(all_), ""};
      }
      case reduce_scatter: {
        const int64_t count = mine.numel() / world_;
        Tensors share{zeros(count)};
        std::vector<Tensors> lists(1);
        for (int r = 0; r < world_; ++r) lists[0].push_back(mine.narrow(0, r * count, count));
        return {backend->reduce_scatter(share, lists, scattering), share[0], my_share(reduced(op)), ""};
      }
      case reduce_scatter_base: {
        auto share = zeros(mine.numel() / world_);
        return {backend->_reduce_scatter_base(share, mine, scattering), share, my_share(reduced(op)), ""};
      }
      default:
        return {backend->barrier({}), mine, mine, ""};
    }
  }

  std::mt19937_64 random_;
  int rank_, world_;
  int64_t least_;
  Tensors all_;
};

struct Arm {
  const char *name, *backend;
  As as;
  int per_host = 0;
  int world = 3, calls = 0;
};

void PrintTo(const Arm& arm, std::ostream* out) { *out << arm.name << ' ' << arm.world; }

constexpr Arm kArms[] = {{"threads", "threads", As::threads},
                         {"shm", "shm", As::processes},
                         {"gloo", "gloo", As::threads},
                         {"hosts", "shm", As::processes, 2}};

std::vector<Arm> worlds_of_each() {
  std::vector<Arm> all;
  for (Arm arm : kArms)
    for (const auto& [world, calls] : kCalls) {
      arm.world = world, arm.calls = calls;
      all.push_back(arm);
    }
  return all;
}

class Mixed : public ::testing::TestWithParam<Arm> {
 protected:
  Team team() const {
    const Arm& arm = GetParam();
    return {.backend = arm.backend, .as = arm.as, .world = arm.world, .per_host = arm.per_host};
  }
};

TEST_P(Mixed, RandomCollectivesMatchPlainComputation) {
  const Arm arm = GetParam();
  expect_ranks_succeed(team(), [=](const Backend& backend, int rank) {
    RandomCalls calls(2024, rank, arm.world, arm.backend == std::string("gloo") ? 1 : 0);
    std::deque<Pending> outstanding;
    for (int call = 0; call < arm.calls; ++call) {
      outstanding.push_back(calls.start(backend, call));
      if (outstanding.size() < 6) continue;
      outstanding.front().finish();
      outstanding.pop_front();
    }
    for (const auto& pending : outstanding) pending.finish();
  });
}

class WithReducer : public Mixed {};

constexpr int kWorld = 3;

c10::intrusive_ptr<c10d::ProcessGroup> group_over(const Backend& backend, int rank) {
  using Group = c10d::ProcessGroup;
  auto group = c10::make_intrusive<Group>(nullptr, rank, kWorld);
  group->setBackend(at::kCPU, Group::BackendType::CUSTOM, backend);
  group->setDefaultBackend(Group::BackendType::CUSTOM);
  return group;
}

torch::nn::Sequential small_model() {
  return torch::nn::Sequential(torch::nn::Linear(20, 31), torch::nn::Tanh(), torch::nn::Linear(31, 17),
                               torch::nn::Tanh(), torch::nn::Linear(17, 3));
}

// Sets the model's parameters to fixed values and returns them. It does not use the global random generator, because
// all ranks (threads) share it.
Tensors fill(const torch::nn::Sequential& model) {
  Tensors parameters = model->parameters();
  const at::NoGradGuard guard;
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto index = at::arange(parameters[i].numel(), at::kDouble) + 100.0 * static_cast<double>(i);
    parameters[i].set_data(index.sin().view(parameters[i].sizes()) / 4);
  }
  return parameters;
}

at::Tensor loss_of(torch::nn::Sequential& model, int rank, int step) {
  const auto rows = (at::arange(8 * 20, at::kDouble) * (rank + 2) + step).cos().view({8, 20});
  return model->forward(rows).square().mean();
}

std::shared_ptr<c10d::Reducer> reducer_of(const Tensors& parameters,
                                          const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  const std::vector<bool> dense(parameters.size(), false);
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(parameters, {1000, 2000}, dense);
  std::reverse(buckets.begin(), buckets.end());
  std::unordered_map<size_t, std::string> names;
  for (size_t i = 0; i < parameters.size(); ++i) names[i] = std::to_string(i);
  return std::make_shared<c10d::Reducer>(parameters, buckets, group, dense, 2000, false, true, names, 1000, false,
                                         false, std::vector<int64_t>{});
}

TEST_P(WithReducer, C10dReducerAveragesGradientsOverRanks) {
  const bool shared = std::string(GetParam().backend) != "gloo" && GetParam().per_host == 0;
  expect_ranks_succeed(team(), [=](const Backend& backend, int rank) {
    const auto group = group_over(backend, rank);
    auto model = small_model(), alone = small_model();
    const Tensors parameters = fill(model), copies = fill(alone);
    c10d::verify_params_across_processes(group, parameters, std::nullopt);
    Tensors detached;
    for (const auto& parameter : parameters) detached.push_back(parameter.detach());
    c10d::broadcast_coalesced(group, detached, 1 << 20, 0);
    const auto reducer = reducer_of(parameters, group);
    for (int step = 0; step < 5; ++step) {
      Tensors want;
      for (int r = 0; r < kWorld; ++r) {
        const auto gradients = torch::autograd::grad({loss_of(alone, r, step)}, copies);
        for (size_t i = 0; i < copies.size(); ++i)
          r == 0 ? want.push_back(gradients[i] / kWorld) : void(want[i] += gradients[i] / kWorld);
      }
      for (const auto& parameter : parameters)
        if (parameter.grad().defined()) parameter.grad().zero_();
      reducer->rebuild_buckets();
      reducer->prepare_for_forward();
      const auto loss = loss_of(model, rank, step);
      reducer->prepare_for_backward({});
      loss.backward();
      for (size_t i = 0; i < want.size(); ++i) {
        const auto& got = parameters[i].grad();
        const double error = (got - want[i]).norm().item<double>() / want[i].norm().item<double>();
        if (!(error < 1e-12)) throw std::runtime_error(c10::str("step ", step, " parameter ", i, ": error ", error));
        const bool placed = shm::find_place(got.data_ptr(), got.nbytes()).block != 0;
        if (placed != shared) throw std::runtime_error("a Reducer bucket is in the wrong kind of memory");
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Mixed, ::testing::ValuesIn(worlds_of_each()),
                         [](const auto& arm) { return c10::str(arm.param.name, arm.param.world); });
INSTANTIATE_TEST_SUITE_P(All, WithReducer, ::testing::ValuesIn(kArms), [](const auto& arm) { return arm.param.name; });

}  // namespace
}  // namespace dpbench::testing
