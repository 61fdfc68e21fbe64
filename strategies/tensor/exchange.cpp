#include "strategies/tensor/exchange.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include <ATen/ATen.h>

#include "strategies/api/parts/activation.h"
#include "strategies/parts/share.h"

namespace dpbench::tensor {
namespace {

constexpr int64_t sequence_dim = 1;

// Returns the element-wise maximum over the ranks' tensors.
at::Tensor largest(const at::Tensor& x, const Axis& axis) {
  std::vector<at::Tensor> tensors = {x.detach().clone(at::MemoryFormat::Contiguous)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  axis.group->allreduce(tensors, options)->wait();
  return tensors[0];
}

}  // namespace

Exchange::Exchange(const Axis& axis, const Options& options, int64_t tokens, Phases* phases)
    : axis_(axis), options_(options), tokens_(even_cut(sequence_dim, tokens, axis)), phases_(phases) {}

void Exchange::begin_block(const std::string& name) const {
  block_ = name;
  name_block(name);
}

Around Exchange::around(const std::string& operation) const {
  return timed(phases_, options_.owner + ": " + operation + " in " + block_);
}

at::Tensor Exchange::verified(const at::Tensor& x, bool forward, bool backward, const std::string& operation) const {
  if (!options_.verify || axis_.size == 1) return x;
  const std::string what = options_.owner + ".verify: " + operation + " in " + block_;
  if (forward) require_equal(x, axis_, what + ": the tensor");
  if (!backward || !x.requires_grad()) return x;
  at::Tensor same = x.view_as(x);
  same.register_hook(
      [axis = axis_, what](const at::Tensor& gradient) { require_equal(gradient, axis, what + ": the gradient"); });
  return same;
}

Piece Exchange::sequence() const {
  if (options_.sequence) return piece_of(tokens_.sizes, axis_.rank);
  Piece all;
  for (const int64_t size : tokens_.sizes) all.size += size;
  return all;
}

at::Tensor Exchange::enter(const at::Tensor& x) const {
  if (options_.sequence) return varying_to_replicate(x, axis_, tokens_, around("gather of the sequence"));
  return invariant_to_replicate(verified(x, true, false, "input of a divided layer"), axis_,
                                around("sum of a gradient"));
}

at::Tensor Exchange::leave(const at::Tensor& x, const Product& product) const {
  const Around call = around("sum of a product");
  const int64_t rows = x.size(0), chunks = std::min(options_.chunks, std::max<int64_t>(rows, 1));
  std::vector<PendingSum> pending;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t first = rows * chunk / chunks, last = rows * (chunk + 1) / chunks;
    const at::Tensor part = product(chunks == 1 ? x : x.narrow(0, first, last - first));
    pending.push_back(options_.sequence ? begin_partial_to_varying(part, axis_, tokens_, call)
                                        : begin_partial_to_invariant(part, axis_, call));
  }
  std::vector<at::Tensor> sums;
  for (const PendingSum& one : pending) sums.push_back(one());
  const at::Tensor sum = sums.size() == 1 ? sums[0] : at::cat(sums);
  return options_.sequence ? sum : verified(sum, false, true, "output of a divided layer");
}

at::Tensor Exchange::join(const at::Tensor& piece, int64_t dim, const std::vector<int64_t>& sizes) const {
  return varying_to_invariant(piece, axis_, {dim, sizes}, around("gather of the output"));
}

at::Tensor Exchange::total(const at::Tensor& x) const {
  return verified(partial_to_invariant(sum_of_piece(x, axis_), axis_, around("sum of the loss")), false, true, "loss");
}

at::Tensor Exchange::maximum(const at::Tensor& x) const {
  if (axis_.size == 1) return x.detach();
  const TypedCall typed("maximum", {x}, axis_, Spread::varying, Spread::replicated);
  return typed.run([&] { return around("maximum of the logits")([&] { return largest(x, axis_); }); });
}

void require_equal(const at::Tensor& tensor, const Axis& axis, const std::string& what) {
  const at::Tensor mine = tensor.detach().clone(at::MemoryFormat::Contiguous);
  const at::Tensor first = share(mine, 0, axis, mine.device());
  const auto bytes = [](const at::Tensor& x) { return x.view({-1}).view(at::kByte); };
  const bool equal = first.sizes() == mine.sizes() && bytes(first).equal(bytes(mine));
  const at::Tensor worst = largest(at::full({1}, equal ? 0 : axis.rank, at::kInt).to(mine.device()), axis);
  if (const int rank = worst.item<int>())
    throw std::runtime_error(what + " of rank " + std::to_string(rank) + " is not that of rank 0");
}

}  // namespace dpbench::tensor
