#include "strategies/api/parts/collectives.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include "strategies/api/parts/activation.h"
#include "strategies/parts/compat.h"
#include "workloads/api/tensor_split.h"

namespace dpbench {
namespace {

// A linear map of this rank's tensor. It may call a collective over an axis.
using LinearMap = std::function<at::Tensor(const at::Tensor&)>;

struct Backward : torch::CustomClassHolder {
  explicit Backward(LinearMap its_map) : map(std::move(its_map)) {}
  LinearMap map;
};

// Applies a linear map in the forward pass and its adjoint in the backward pass.
struct Adjoint : torch::autograd::Function<Adjoint> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& tensor, const LinearMap& map,
                            const LinearMap& adjoint) {
    context->saved_data["adjoint"] = c10::IValue::make_capsule(c10::make_intrusive<Backward>(adjoint));
    return map(tensor);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto capsule = context->saved_data["adjoint"].toCapsule();
    return {static_cast<const Backward&>(*capsule).map(gradients[0]), at::Tensor(), at::Tensor()};
  }
};

at::Tensor same(const at::Tensor& tensor) { return tensor.view_as(tensor); }

// The pieces into which a dimension is cut, one per rank of an axis. Smaller pieces are padded before they are sent,
// because collectives need equal sizes.
class Pieces {
 public:
  Pieces(const Axis& axis, Cut cut) : axis_(axis), cut_(std::move(cut)) {
    if (static_cast<int>(cut_.sizes.size()) != axis.size)
      throw std::invalid_argument(
          c10::str("a cut into ", cut_.sizes.size(), " pieces for the ", axis.size, " ranks of axis ", axis.name));
    for (const int64_t size : cut_.sizes) whole_ += size, largest_ = std::max(largest_, size);
  }

  int64_t mine() const { return cut_.sizes[static_cast<size_t>(axis_.rank)]; }
  int64_t whole() const { return whole_; }

  void require(const at::Tensor& tensor, int64_t size) const {
    if (tensor.size(cut_.dim) != size)
      throw std::invalid_argument(c10::str("rank ", axis_.rank, " of axis ", axis_.name, " has a tensor of ",
                                           tensor.sizes(), ", but the cut needs ", size, " in dimension ", cut_.dim));
  }

  at::Tensor padded(const at::Tensor& piece) const {
    const int64_t missing = largest_ - piece.size(cut_.dim);
    if (missing == 0) return piece;
    std::vector<int64_t> sizes = piece.sizes().vec();
    sizes[static_cast<size_t>(at::maybe_wrap_dim(cut_.dim, piece.dim()))] = missing;
    return at::cat({piece, at::zeros(sizes, piece.options())}, cut_.dim);
  }
  at::Tensor unpadded(const at::Tensor& piece, size_t rank) const {
    return piece.narrow(cut_.dim, 0, cut_.sizes[rank]);
  }
  // Returns the padded pieces of a whole tensor, stacked along a new dimension.
  at::Tensor stacked(const at::Tensor& whole) const {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& part : whole.split_with_sizes(cut_.sizes, cut_.dim)) parts.push_back(padded(part));
    return at::stack(parts);
  }
  at::Tensor joined(const at::Tensor& stack) const {
    std::vector<at::Tensor> parts;
    for (size_t rank = 0; rank < cut_.sizes.size(); ++rank)
      parts.push_back(unpadded(stack[static_cast<int64_t>(rank)], rank));
    return at::cat(parts, cut_.dim);
  }

  at::Tensor own_of(const at::Tensor& whole) const {
    const Piece piece = piece_of(cut_.sizes, axis_.rank);
    return whole.narrow(cut_.dim, piece.first, piece.size);
  }

 private:
  Axis axis_;
  Cut cut_;
  int64_t whole_ = 0, largest_ = 0;
};

LinearMap with(const Around& around, LinearMap map) {
  if (!around) return map;
  return [around, map = std::move(map)](const at::Tensor& tensor) { return around([&] { return map(tensor); }); };
}

// Starts an all-reduce and returns a function that waits for the sum and returns it.
PendingSum begin_all_reduce(const Axis& axis, const at::Tensor& tensor) {
  std::vector<at::Tensor> sum = {tensor.clone(at::MemoryFormat::Contiguous)};
  return [sum, work = axis.group->allreduce(sum)] {
    work->wait();
    return sum[0];
  };
}

LinearMap all_reduce(const Axis& axis) {
  return [axis](const at::Tensor& tensor) { return begin_all_reduce(axis, tensor)(); };
}

LinearMap all_gather(const Axis& axis, const Cut& cut) {
  return [axis, pieces = Pieces(axis, cut)](const at::Tensor& piece) {
    pieces.require(piece, pieces.mine());
    at::Tensor mine = pieces.padded(piece).contiguous();
    std::vector<int64_t> sizes = mine.sizes().vec();
    sizes.insert(sizes.begin(), axis.size);
    at::Tensor all = at::empty(sizes, mine.options()), flat = all.view({-1});
    mine = mine.view({-1});
    allgather_flat(*axis.group, flat, mine);
    return pieces.joined(all);
  };
}

// Starts a reduce-scatter and returns a function that waits for this rank's piece of the sum and returns it.
PendingSum begin_scatter(const Axis& axis, const Pieces& pieces, const at::Tensor& whole) {
  pieces.require(whole, pieces.whole());
  const at::Tensor all = pieces.stacked(whole);
  at::Tensor mine = at::empty_like(all[0]), flat = all.view({-1}), out = mine.view({-1});
  return [=, work = begin_reduce_scatter(*axis.group, out, flat)] {
    work->wait();
    return pieces.unpadded(mine, static_cast<size_t>(axis.rank)).contiguous();
  };
}

LinearMap reduce_scatter(const Axis& axis, const Cut& cut) {
  return [axis, pieces = Pieces(axis, cut)](const at::Tensor& whole) { return begin_scatter(axis, pieces, whole)(); };
}

// Starts a reduction by calling `begin`. The returned function waits for the result and gives it `adjoint` as its
// backward pass.
PendingSum pending(const TypedCall& typed, const at::Tensor& tensor,
                   const std::function<PendingSum(const at::Tensor&)>& begin, const LinearMap& adjoint,
                   const Around& around) {
  const UntypedOperations untyped;
  PendingSum sum;
  with(around, [&](const at::Tensor& mine) {
    sum = begin(mine);
    return mine;
  })(tensor.detach());
  return [=] {
    return typed.run(
        [&] { return Adjoint::apply(tensor, with(around, [sum](const at::Tensor&) { return sum(); }), adjoint); });
  };
}

LinearMap slice(const Axis& axis, const Cut& cut) {
  return [pieces = Pieces(axis, cut)](const at::Tensor& whole) {
    pieces.require(whole, pieces.whole());
    return pieces.own_of(whole).clone(at::MemoryFormat::Contiguous);
  };
}

LinearMap zeros_around(const Axis& axis, const Cut& cut) {
  return [pieces = Pieces(axis, cut), dim = cut.dim](const at::Tensor& piece) {
    pieces.require(piece, pieces.mine());
    std::vector<int64_t> sizes = piece.sizes().vec();
    sizes[static_cast<size_t>(at::maybe_wrap_dim(dim, piece.dim()))] = pieces.whole();
    at::Tensor whole = at::zeros(sizes, piece.options());
    pieces.own_of(whole).copy_(piece);
    return whole;
  };
}

LinearMap all_to_all(const Axis& axis, const Cut& from, const Cut& to) {
  return [axis, from = Pieces(axis, from), to = Pieces(axis, to)](const at::Tensor& piece) {
    from.require(piece, from.mine());
    to.require(piece, to.whole());
    at::Tensor sent = to.stacked(from.padded(piece)), received = at::empty_like(sent);
    std::vector<int64_t> even;
    axis.group->alltoall_base(received, sent, even, even)->wait();
    // Each received piece is padded along both dimensions: unpadded() removes the padding along the dimension that this
    // all-to-all cuts, joined() along the dimension that it joins.
    std::vector<at::Tensor> parts;
    for (const at::Tensor& part : received.unbind()) parts.push_back(to.unpadded(part, static_cast<size_t>(axis.rank)));
    return from.joined(at::stack(parts));
  };
}

LinearMap all_to_all_rows(const Axis& axis, const std::vector<int64_t>& sent, const std::vector<int64_t>& received) {
  return [=](const at::Tensor& rows) {
    at::Tensor from = rows.contiguous();
    std::vector<int64_t> sizes = rows.sizes().vec(), to_sizes = received, from_sizes = sent;
    sizes[0] = std::accumulate(received.begin(), received.end(), int64_t{0});
    at::Tensor to = at::empty(sizes, from.options());
    axis.group->alltoall_base(to, from, to_sizes, from_sizes)->wait();
    return to;
  };
}

}  // namespace

Cut even_cut(int64_t dim, int64_t size, const Axis& axis) { return {dim, even_pieces(size, axis.size)}; }

at::Tensor invariant_to_replicate(const at::Tensor& tensor, const Axis& axis, const Around& around) {
  if (axis.size == 1) return tensor;
  const TypedCall typed("invariant_to_replicate", {tensor}, axis, Spread::invariant, Spread::replicated);
  return typed.run([&] { return Adjoint::apply(tensor, same, with(around, all_reduce(axis))); });
}

at::Tensor partial_to_invariant(const at::Tensor& tensor, const Axis& axis, const Around& around) {
  if (axis.size == 1) return tensor;
  const TypedCall typed("partial_to_invariant", {tensor}, axis, Spread::partial, Spread::invariant);
  return typed.run([&] { return Adjoint::apply(tensor, with(around, all_reduce(axis)), same); });
}

PendingSum begin_partial_to_invariant(const at::Tensor& tensor, const Axis& axis, const Around& around) {
  if (axis.size == 1) return [tensor] { return tensor; };
  const TypedCall typed("partial_to_invariant", {tensor}, axis, Spread::partial, Spread::invariant);
  return pending(typed, tensor, [&](const at::Tensor& mine) { return begin_all_reduce(axis, mine); }, same, around);
}

at::Tensor partial_to_replicate(const at::Tensor& tensor, const Axis& axis, const Around& around) {
  if (axis.size == 1) return tensor;
  const LinearMap sum = with(around, all_reduce(axis));
  const TypedCall typed("partial_to_replicate", {tensor}, axis, Spread::partial, Spread::replicated);
  return typed.run([&] { return Adjoint::apply(tensor, sum, sum); });
}

at::Tensor varying_to_replicate(const at::Tensor& piece, const Axis& axis, const Cut& cut, const Around& around) {
  if (axis.size == 1) return piece;
  const TypedCall typed("varying_to_replicate", {piece}, axis, Spread::varying, Spread::replicated);
  return typed.run([&] {
    return Adjoint::apply(piece, with(around, all_gather(axis, cut)), with(around, reduce_scatter(axis, cut)));
  });
}

at::Tensor varying_to_invariant(const at::Tensor& piece, const Axis& axis, const Cut& cut, const Around& around) {
  if (axis.size == 1) return piece;
  const TypedCall typed("varying_to_invariant", {piece}, axis, Spread::varying, Spread::invariant);
  return typed.run([&] { return Adjoint::apply(piece, with(around, all_gather(axis, cut)), slice(axis, cut)); });
}

at::Tensor partial_to_varying(const at::Tensor& whole, const Axis& axis, const Cut& cut, const Around& around) {
  if (axis.size == 1) return whole;
  const TypedCall typed("partial_to_varying", {whole}, axis, Spread::partial, Spread::varying);
  return typed.run([&] {
    return Adjoint::apply(whole, with(around, reduce_scatter(axis, cut)), with(around, all_gather(axis, cut)));
  });
}

PendingSum begin_partial_to_varying(const at::Tensor& whole, const Axis& axis, const Cut& cut, const Around& around) {
  if (axis.size == 1) return [whole] { return whole; };
  const TypedCall typed("partial_to_varying", {whole}, axis, Spread::partial, Spread::varying);
  const auto begin = [&](const at::Tensor& mine) { return begin_scatter(axis, Pieces(axis, cut), mine); };
  return pending(typed, whole, begin, with(around, all_gather(axis, cut)), around);
}

at::Tensor invariant_to_varying(const at::Tensor& whole, const Axis& axis, const Cut& cut, const Around& around) {
  if (axis.size == 1) return whole;
  const TypedCall typed("invariant_to_varying", {whole}, axis, Spread::invariant, Spread::varying);
  return typed.run([&] { return Adjoint::apply(whole, slice(axis, cut), with(around, all_gather(axis, cut))); });
}

at::Tensor replicate_to_varying(const at::Tensor& whole, const Axis& axis, const Cut& cut) {
  if (axis.size == 1) return whole;
  const TypedCall typed("replicate_to_varying", {whole}, axis, Spread::replicated, Spread::varying);
  return typed.run([&] { return Adjoint::apply(whole, slice(axis, cut), zeros_around(axis, cut)); });
}

at::Tensor varying_to_varying(const at::Tensor& piece, const Axis& axis, const Cut& from, const Cut& to,
                              const Around& around) {
  if (axis.size == 1) return piece;
  const TypedCall typed("varying_to_varying", {piece}, axis, Spread::varying, Spread::varying);
  return typed.run([&] {
    return Adjoint::apply(piece, with(around, all_to_all(axis, from, to)), with(around, all_to_all(axis, to, from)));
  });
}

at::Tensor rows_to_ranks(const at::Tensor& rows, const Axis& axis, const std::vector<int64_t>& sent,
                         const std::vector<int64_t>& received, const Around& around) {
  if (axis.size == 1) return rows;
  const TypedCall typed("rows_to_ranks", {rows}, axis, Spread::varying, Spread::varying);
  return typed.run([&] {
    return Adjoint::apply(rows, with(around, all_to_all_rows(axis, sent, received)),
                          with(around, all_to_all_rows(axis, received, sent)));
  });
}

}  // namespace dpbench
