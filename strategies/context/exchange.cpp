#include "strategies/context/exchange.h"

#include <ATen/ATen.h>

#include "strategies/api/parts/activation.h"

namespace dpbench::context {

Exchange::Exchange(const Axis& axis, const Options& options, int64_t tokens, Phases* phases)
    : axis_(axis),
      options_(options),
      cut_(tokens, axis.size, options.kind == Kind::ring && options.zigzag),
      phases_(phases) {}

void Exchange::begin_block(const std::string& name) const {
  block_ = name;
  name_block(name);
}

Around Exchange::around(const std::string& operation) const {
  return timed(phases_, options_.owner + ": " + operation + " in " + block_);
}

std::shared_ptr<const Ring> Exchange::ring() const {
  return std::make_shared<const Ring>(axis_, cut_, around("exchange of keys and values"), options_.poison);
}

at::Tensor Exchange::to_heads(const at::Tensor& x, const std::vector<int64_t>& heads) const {
  return varying_to_varying(x, axis_, {token_dim, cut_.counts()}, {head_dim, heads}, around("exchange of heads"));
}

at::Tensor Exchange::to_tokens(const at::Tensor& x, const std::vector<int64_t>& heads) const {
  return varying_to_varying(x, axis_, {head_dim, heads}, {token_dim, cut_.counts()}, around("exchange of tokens"));
}

at::Tensor Exchange::attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const std::shared_ptr<const AttentionKernel>& kernel) const {
  if (options_.kind == Kind::ring) {
    const TypedCall typed("attention", {query, key, value}, axis_, Spread::varying, Spread::varying);
    return typed.run([&] { return ring_attention(query, key, value, ring(), kernel); });
  }
  const int64_t heads = query.size(head_dim);
  // If there are fewer heads of keys and values than ranks, these heads are repeated until each query head has its own.
  const int64_t copies = key.size(head_dim) < axis_.size ? heads / key.size(head_dim) : 1;
  const auto copied = [&](const at::Tensor& x) { return copies == 1 ? x : x.repeat_interleave(copies, head_dim); };
  const int64_t shared = key.size(head_dim) * copies;
  const auto of_query = even_pieces(heads, axis_.size, heads / shared), of_shared = even_pieces(shared, axis_.size);
  const at::Tensor output =
      kernel->whole(to_heads(query, of_query), to_heads(copied(key), of_shared), to_heads(copied(value), of_shared));
  return to_tokens(output, of_query);
}

at::Tensor Exchange::total(const at::Tensor& x) const {
  return partial_to_invariant(sum_of_piece(x, axis_), axis_, around("sum of the loss"));
}

at::Tensor Exchange::join(const at::Tensor& own, int64_t dim) const {
  return cut_.in_order(varying_to_invariant(own, axis_, {dim, cut_.counts()}, around("gather of the output")), dim);
}

}  // namespace dpbench::context
