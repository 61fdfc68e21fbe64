// Tests the differentiable collectives. If the forward pass is the linear map A, the backward pass must be its
// transpose A^T: <y, A x> = <A^T y, x>, exactly, because all values are integers.
#include "strategies/api/parts/collectives.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "tests/support/contains.h"
#include "tests/unit/comm/mesh_ranks.h"
#include "workloads/base/error.h"

namespace dpbench::testing {
namespace {

// How the ranks of an axis hold a tensor: all of it (invariant, replicated), a piece each (varying) or a summand each
// (partial). The gradient of an invariant tensor is equal on all ranks; that of a replicated tensor is a summand.
enum class Type { invariant, replicated, varying, partial };

// Returns how the ranks hold the gradient of a tensor that they hold as `type`.
Type dual(Type type) {
  return type == Type::replicated ? Type::partial : type == Type::partial ? Type::replicated : type;
}

bool equal_on_all_ranks(Type type) { return type == Type::invariant || type == Type::replicated; }

// Returns small integers that differ between ranks and seeds.
at::Tensor integers(at::IntArrayRef sizes, int rank, int seed) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(1000 * seed + rank));
  return at::randint(-9, 10, sizes, generator, at::TensorOptions().dtype(at::kDouble));
}

std::vector<int64_t> sizes_with(std::vector<int64_t> sizes, const Cut& cut, int64_t size) {
  sizes[static_cast<size_t>(cut.dim)] = size;
  return sizes;
}

int64_t whole_size(const Cut& cut) {
  int64_t sum = 0;
  for (const int64_t size : cut.sizes) sum += size;
  return sum;
}

at::Tensor piece_of(const at::Tensor& whole, const Cut& cut, int rank) {
  return whole.split_with_sizes(cut.sizes, cut.dim)[static_cast<size_t>(rank)];
}

struct Collective {
  std::string name;
  Type from, to;
  // How a varying tensor is cut into one piece per rank: `source` before the collective, `target` after it.
  Cut source, target;
  std::function<at::Tensor(const at::Tensor&, const Axis&)> call;
};

std::vector<Collective> collectives(const Cut& cut, const Cut& other) {
  using enum Type;
  using Plain = at::Tensor (*)(const at::Tensor&, const Axis&, const Around&);
  using Cutting = at::Tensor (*)(const at::Tensor&, const Axis&, const Cut&, const Around&);
  const auto plain = [=](Plain function) {
    return [=](const at::Tensor& tensor, const Axis& axis) { return function(tensor, axis, {}); };
  };
  const auto cutting = [=](Cutting function) {
    return [=](const at::Tensor& tensor, const Axis& axis) { return function(tensor, axis, cut, {}); };
  };
  return {{"invariant_to_replicate", invariant, replicated, cut, cut, plain(invariant_to_replicate)},
          {"partial_to_invariant", partial, invariant, cut, cut, plain(partial_to_invariant)},
          {"begin_partial_to_invariant", partial, invariant, cut, cut,
           [](const at::Tensor& tensor, const Axis& axis) { return begin_partial_to_invariant(tensor, axis)(); }},
          {"begin_partial_to_varying", partial, varying, cut, cut,
           [=](const at::Tensor& tensor, const Axis& axis) { return begin_partial_to_varying(tensor, axis, cut)(); }},
          {"partial_to_replicate", partial, replicated, cut, cut, plain(partial_to_replicate)},
          {"varying_to_replicate", varying, replicated, cut, cut, cutting(varying_to_replicate)},
          {"varying_to_invariant", varying, invariant, cut, cut, cutting(varying_to_invariant)},
          {"partial_to_varying", partial, varying, cut, cut, cutting(partial_to_varying)},
          {"invariant_to_varying", invariant, varying, cut, cut, cutting(invariant_to_varying)},
          {"replicate_to_varying", replicated, varying, cut, cut,
           [=](const at::Tensor& tensor, const Axis& axis) { return replicate_to_varying(tensor, axis, cut); }},
          {"varying_to_varying", varying, varying, cut, other,
           [=](const at::Tensor& tensor, const Axis& axis) { return varying_to_varying(tensor, axis, cut, other); }}};
}

// Returns this rank's tensor: for `varying` its piece of a common tensor, for `invariant` and `replicated` the common
// tensor, for `partial` its own summand.
at::Tensor tensor_of(Type type, const Cut& cut, at::IntArrayRef whole, int rank, int seed) {
  const at::Tensor all = integers(whole, type == Type::partial ? rank : 0, seed);
  return type == Type::varying ? piece_of(all, cut, rank) : all;
}

// Returns the whole tensor: the ranks' pieces joined, the common tensor, or the sum of the ranks' summands.
at::Tensor meaning_of(Type type, at::IntArrayRef whole, int world, int seed) {
  at::Tensor sum = integers(whole, 0, seed);
  for (int rank = 1; rank < world && type == Type::partial; ++rank) sum = sum + integers(whole, rank, seed);
  return sum;
}

double sum_over(const Axis& axis, const at::Tensor& value) {
  std::vector<at::Tensor> box = {value.reshape({1}).clone()};
  axis.group->allreduce(box)->wait();
  return box[0].item<double>();
}

// Returns the inner product of a tensor and a gradient, summed over all ranks. If all ranks hold the same tensor
// (invariant), the product counts once, not once per rank.
double product(const Axis& axis, Type type, const at::Tensor& tensor, const at::Tensor& gradient) {
  const at::Tensor own = (tensor * gradient).sum();
  return sum_over(axis, type == Type::invariant && axis.rank > 0 ? at::zeros_like(own) : own);
}

void require_equal_on_all_ranks(const Axis& axis, const at::Tensor& tensor, const std::string& what) {
  std::vector<at::Tensor> first = {tensor.clone(at::MemoryFormat::Contiguous)};
  axis.group->broadcast(first)->wait();
  require_equal(tensor, first[0], what + " differs between ranks");
}

void require_adjoint(const Collective& collective, const Axis& axis, std::vector<int64_t> sizes) {
  const std::string& name = collective.name;
  sizes = sizes_with(sizes, collective.source, whole_size(collective.source));
  if (collective.source.dim != collective.target.dim)
    sizes = sizes_with(sizes, collective.target, whole_size(collective.target));
  const at::Tensor x = tensor_of(collective.from, collective.source, sizes, axis.rank, 1).detach().requires_grad_();
  const at::Tensor out = collective.call(x, axis);
  const at::Tensor due = meaning_of(collective.from, sizes, axis.size, 1);
  require_equal(out.detach(), collective.to == Type::varying ? piece_of(due, collective.target, axis.rank) : due, name);
  const at::Tensor y = tensor_of(dual(collective.to), collective.target, sizes, axis.rank, 2);
  const at::Tensor gradient = torch::autograd::grad({out}, {x}, {y})[0];
  if (equal_on_all_ranks(dual(collective.from))) require_equal_on_all_ranks(axis, gradient, name + "'s gradient");
  const double forward = product(axis, collective.to, out.detach(), y),
               backward = product(axis, collective.from, x.detach(), gradient);
  check(forward == backward, c10::str(name, ": <y, A x> = ", forward, ", <A^T y, x> = ", backward));
}

// Returns pairs of ways to cut a tensor into a piece per rank, along the first and the last dimension: even, uneven,
// and with an empty piece.
std::vector<std::pair<Cut, Cut>> cuts_for(int world) {
  if (world == 2) return {{{0, {2, 2}}, {1, {3, 3}}}, {{1, {4, 1}}, {0, {1, 2}}}, {{0, {0, 3}}, {1, {2, 1}}}};
  return {{{0, {2, 2, 2}}, {1, {1, 1, 1}}}, {{1, {1, 3, 2}}, {0, {2, 0, 1}}}};
}

TEST(DifferentiableCollectives, RunTheirAdjointInTheBackwardPass) {
  for (const Kind& kind : kinds)
    for (const int world : {2, 3}) {
      const auto errors =
          run_setups({.backend = kind.backend, .as = kind.as, .world = world}, [&](const BackendSetup& setup) {
            const Mesh mesh = mesh_of(kind.backend, {{"tp", world}}, setup);
            for (const auto& [cut, other] : cuts_for(world))
              for (const Collective& collective : collectives(cut, other))
                require_adjoint(collective, mesh.axis("tp"), {3, 5, 2});
          });
      for (const auto& error : errors) EXPECT_EQ(error, "") << kind.backend << " of " << world;
    }
}

TEST(DifferentiableCollectives, GiveCorrectOutputsAndGradientsOnBothAxesOfAMesh) {
  const auto errors = run_setups({.backend = "threads", .world = 4}, [](const BackendSetup& setup) {
    const Mesh mesh = mesh_of("threads", {{"dp", 2}, {"tp", 2}}, setup);
    for (const Axis& axis : mesh.axes())
      for (const auto& [cut, other] : cuts_for(2))
        for (const Collective& collective : collectives(cut, other)) require_adjoint(collective, axis, {3, 5, 2});
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

// The number of rows that a rank sends to another: 0, 1 or 2.
int64_t rows_between(int from, int to) { return (2 * from + to + 1) % 3; }

at::Tensor rows_of(int rank, int world) {
  int64_t rows = 0;
  for (int to = 0; to < world; ++to) rows += rows_between(rank, to);
  return integers({rows, 2}, rank, 1);
}

// Returns the rows that all ranks send to this rank.
at::Tensor rows_due(const Axis& axis) {
  std::vector<at::Tensor> due;
  for (int from = 0; from < axis.size; ++from) {
    int64_t first = 0;
    for (int to = 0; to < axis.rank; ++to) first += rows_between(from, to);
    due.push_back(rows_of(from, axis.size).narrow(0, first, rows_between(from, axis.rank)));
  }
  return at::cat(due);
}

void require_rows_and_gradients_arrive(const Axis& axis) {
  std::vector<int64_t> sent, received;
  for (int other = 0; other < axis.size; ++other) {
    sent.push_back(rows_between(axis.rank, other));
    received.push_back(rows_between(other, axis.rank));
  }
  const at::Tensor x = rows_of(axis.rank, axis.size).requires_grad_();
  const at::Tensor out = rows_to_ranks(x, axis, sent, received);
  require_equal(out.detach(), rows_due(axis), "rows_to_ranks");
  const at::Tensor y = integers(out.sizes(), axis.rank, 2);
  const at::Tensor gradient = torch::autograd::grad({out}, {x}, {y})[0];
  const double forward = product(axis, Type::varying, out.detach(), y),
               backward = product(axis, Type::varying, x.detach(), gradient);
  check(forward == backward, c10::str("<y, A x> = ", forward, ", <A^T y, x> = ", backward));
  // The gradient of each received row is the row itself, so each row must come back to the rank that sent it.
  const at::Tensor back = torch::autograd::grad({rows_to_ranks(x, axis, sent, received)}, {x}, {out.detach()})[0];
  require_equal(back, x.detach(), "the gradient of rows_to_ranks");
}

TEST(DifferentiableCollectives, AnExchangeOfRowsReturnsTheGradientOfEachRowToTheRankThatSentIt) {
  for (const Kind& kind : kinds)
    for (const int world : {2, 3}) {
      const auto errors =
          run_setups({.backend = kind.backend, .as = kind.as, .world = world}, [&](const BackendSetup& setup) {
            require_rows_and_gradients_arrive(mesh_of(kind.backend, {{"ep", world}}, setup).axis("ep"));
          });
      for (const auto& error : errors) EXPECT_EQ(error, "") << kind.backend << " of " << world;
    }
}

TEST(DifferentiableCollectives, ReturnTheInputTensorItselfOnAnAxisOfOneRank) {
  const at::Tensor x = at::ones({3, 2}).requires_grad_();
  const Cut cut{0, {3}};
  for (const Collective& collective : collectives(cut, cut))
    EXPECT_TRUE(collective.call(x, Axis{.name = "tp"}).is_same(x)) << collective.name;
  EXPECT_TRUE(rows_to_ranks(x, Axis{.name = "ep"}, {3}, {3}).is_same(x));
}

TEST(DifferentiableCollectives, CuttingAReplicatedTensorRejectsSizesThatDoNotFitTheTensorOrTheNumberOfRanks) {
  const Axis axis{.name = "tp", .rank = 1, .size = 2};
  const auto refusal_of = [&](const Cut& cut) -> std::string {
    try {
      replicate_to_varying(at::ones({3, 2}), axis, cut);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_TRUE(mentions_in_order(refusal_of({0, {2, 2}}), {"rank 1", "axis tp", "[3, 2]", "4", "dimension 0"}));
  EXPECT_TRUE(mentions_in_order(refusal_of({0, {3}}), {"1 pieces", "2 ranks", "axis tp"}));
  EXPECT_EQ(refusal_of({0, {1, 2}}), "nothing was refused");
}

TEST(EvenCut, GivesRanksPiecesWhoseSizesDifferByAtMostOne) {
  const Axis axis{.name = "tp", .rank = 0, .size = 3};
  EXPECT_EQ(even_cut(1, 8, axis).sizes, (std::vector<int64_t>{3, 3, 2}));
  EXPECT_EQ(even_cut(1, 8, axis).dim, 1);
  EXPECT_EQ(even_cut(0, 2, axis).sizes, (std::vector<int64_t>{1, 1, 0}));
}

}  // namespace
}  // namespace dpbench::testing
