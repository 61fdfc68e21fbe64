// Differentiable collectives over an axis of a mesh. Each changes how a tensor is distributed over the axis's ranks:
//
//   I  invariant: equal on all ranks; its gradient is equal on all ranks too
//   R  replicated: equal on all ranks; its gradient is the sum of the ranks' gradients
//   V  varying: each rank has its own piece
//   P  partial: each rank has an addend of the sum; its gradient is equal on all ranks
//
//                          forward         backward        Megatron's name
//   invariant_to_replicate   -               all-reduce      copy_to
//   partial_to_invariant     all-reduce      -               reduce_from
//   partial_to_replicate     all-reduce      all-reduce
//   varying_to_replicate     all-gather      reduce-scatter  gather_from_sequence
//   varying_to_invariant     all-gather      slice           gather_from
//   partial_to_varying       reduce-scatter  all-gather      reduce_scatter_to_sequence
//   invariant_to_varying     slice           all-gather      scatter_to
//   replicate_to_varying     slice           zero padding
//   varying_to_varying       all-to-all      all-to-all
//   rows_to_ranks            all-to-all      all-to-all
//
// All ranks of the axis call these functions in the same order, and run their backward passes in the same order. On an
// axis of one rank, each function returns its input.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "strategies/api/mesh.h"

namespace dpbench {

// The cut of a whole tensor along a dimension: sizes[r] is the size of the piece of rank r.
struct Cut {
  int64_t dim = 0;
  std::vector<int64_t> sizes;
};

// Returns a cut into pieces with sizes that differ by at most 1. The larger pieces come first.
Cut even_cut(int64_t dim, int64_t size, const Axis& axis);

// A wrapper in which each collective call of the forward and backward pass is run, for example to time the call. Empty:
// calls run without a wrapper.
using Around = std::function<at::Tensor(const std::function<at::Tensor()>& call)>;

at::Tensor invariant_to_replicate(const at::Tensor& tensor, const Axis& axis, const Around& around = {});
at::Tensor partial_to_invariant(const at::Tensor& tensor, const Axis& axis, const Around& around = {});
at::Tensor partial_to_replicate(const at::Tensor& tensor, const Axis& axis, const Around& around = {});
at::Tensor varying_to_replicate(const at::Tensor& piece, const Axis& axis, const Cut& cut, const Around& around = {});
at::Tensor varying_to_invariant(const at::Tensor& piece, const Axis& axis, const Cut& cut, const Around& around = {});
at::Tensor partial_to_varying(const at::Tensor& whole, const Axis& axis, const Cut& cut, const Around& around = {});
at::Tensor invariant_to_varying(const at::Tensor& whole, const Axis& axis, const Cut& cut, const Around& around = {});
at::Tensor replicate_to_varying(const at::Tensor& whole, const Axis& axis, const Cut& cut);
// Start partial_to_invariant() and partial_to_varying() without blocking; the returned function waits for the result.
using PendingSum = std::function<at::Tensor()>;
PendingSum begin_partial_to_invariant(const at::Tensor& tensor, const Axis& axis, const Around& around = {});
PendingSum begin_partial_to_varying(const at::Tensor& whole, const Axis& axis, const Cut& cut,
                                    const Around& around = {});
// Joins the pieces along from.dim and cuts along to.dim, as Ulysses attention does with sequence and heads.
at::Tensor varying_to_varying(const at::Tensor& piece, const Axis& axis, const Cut& from, const Cut& to,
                              const Around& around = {});
// All-to-all of uneven pieces along dimension 0: sends the first sent[0] rows of the tensor to rank 0, the next sent[1]
// to rank 1, and so on. Returns the received rows, in the order of their source ranks. The backward pass sends the
// gradients of the received rows back.
at::Tensor rows_to_ranks(const at::Tensor& rows, const Axis& axis, const std::vector<int64_t>& sent,
                         const std::vector<int64_t>& received, const Around& around = {});

}  // namespace dpbench
