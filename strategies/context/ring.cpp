#include "strategies/context/ring.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

namespace dpbench::context {
namespace {

using Result = AttentionKernel::Result;

constexpr int key_tag = 0, gradient_tag = 1;
// Token dimension of the tensor that travels around the ring, keys and values stacked.
constexpr int64_t held_dim = token_dim + 1;

at::ScalarType wide(at::ScalarType type) { return at::isReducedFloatingType(type) ? at::kFloat : type; }

// Merges two attention results of the same queries, over two different sets of keys. `one` may be an empty result,
// without an output.
Result merged(const Result& one, const Result& other) {
  if (!one.output.defined()) return other;
  if (!one.logsumexp.defined()) return {one.output + other.output, {}};
  const at::Tensor all = at::logaddexp(one.logsumexp, other.logsumexp);
  const auto weighted = [&](const Result& part) { return part.output * (part.logsumexp - all).exp().unsqueeze(3); };
  return {weighted(one) + weighted(other), all};
}

at::Tensor cut(const at::Tensor& tensor, const Piece& piece) {
  return tensor.narrow(token_dim, piece.first, piece.size);
}

Result cut(const Result& result, const Piece& piece) {
  return {cut(result.output, piece), result.logsumexp.defined() ? cut(result.logsumexp, piece) : at::Tensor()};
}

// Joins results along the tokens. The memory of the output is ordered by token, then by head, as the layer after
// attention reads it.
Result joined(const std::vector<Result>& results) {
  std::vector<at::Tensor> outputs, logarithms;
  for (const Result& one : results) {
    outputs.push_back(one.output.transpose(head_dim, token_dim));
    if (one.logsumexp.defined()) logarithms.push_back(one.logsumexp);
  }
  return {at::cat(outputs, head_dim).transpose(head_dim, token_dim),
          logarithms.empty() ? at::Tensor() : at::cat(logarithms, token_dim)};
}

struct Passes : torch::CustomClassHolder {
  Passes(std::shared_ptr<const Ring> its_ring, std::shared_ptr<const AttentionKernel> its_kernel)
      : ring(std::move(its_ring)), kernel(std::move(its_kernel)) {}
  std::shared_ptr<const Ring> ring;
  std::shared_ptr<const AttentionKernel> kernel;
};

struct RingAttention : torch::autograd::Function<RingAttention> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const c10::intrusive_ptr<Passes>& passes) {
    const Result found = passes->ring->forward(query, key, value, *passes->kernel);
    at::Tensor output = found.output.to(query.scalar_type());
    // The attention kernel's output has a wider dtype than 16-bit queries. It is saved too, unless it is the same
    // tensor as `output`, which has the dtype of the queries.
    const bool same = output.is_same(found.output);
    context->save_for_backward({query, key, value, output, same ? at::Tensor() : found.output, found.logsumexp});
    context->saved_data["passes"] = c10::IValue::make_capsule(passes);
    return output;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& slopes) {
    const auto saved = context->get_saved_variables();
    const auto capsule = context->saved_data["passes"].toCapsule();
    const auto& passes = static_cast<const Passes&>(*capsule);
    const Result whole{saved[4].defined() ? saved[4] : saved[3], saved[5]};
    auto [query, key, value] = passes.ring->backward(slopes[0], saved[0], saved[1], saved[2], whole, *passes.kernel);
    return {query.to(saved[0].scalar_type()), key.to(saved[1].scalar_type()), value.to(saved[2].scalar_type()),
            at::Tensor()};
  }
};

}  // namespace

Ring::Sight Ring::sight(const Piece& query, const Piece& key) const {
  if (key.first == query.first) return Sight::causal;
  return key.first < query.first ? Sight::all : Sight::nothing;
}

std::vector<Ring::Block> Ring::blocks(int hop) const {
  std::vector<Block> found;
  Block block;
  for (const Piece& query : cut_.of(axis_.rank)) {
    block.query.size = query.size;
    block.key.first = 0;
    for (const Piece& key : cut_.of(source(hop))) {
      block.key.size = key.size;
      const Sight seen = sight(query, key);
      block.causal = seen == Sight::causal;
      if (seen != Sight::nothing) found.push_back(block);
      block.key.first += key.size;
    }
    block.query.first += query.size;
    ++block.piece;
  }
  return found;
}

Ring::Hop Ring::begin(const at::Tensor& held, int hop, int tag) const {
  const pipeline::Links links(axis_, held.device(), poison_);
  const int after = (axis_.rank + 1) % axis_.size, before = source(1);
  std::vector<int64_t> sizes = held.sizes().vec();
  sizes[held_dim] = cut_.count(source(hop + 1));
  Hop started;
  const auto send = [&] { started.sent = links.send_like(held, after, tag); };
  const auto receive = [&] { started.received = links.receive_sized(sizes, held.scalar_type(), before, tag); };
  around_([&] {
    // NCCL runs a rank's transfers one after the other. If every rank started with its send, all sends would wait
    // forever for receives. So every second rank receives first.
    if (axis_.rank % 2 == 0)
      send(), receive();
    else
      receive(), send();
    return held;
  });
  return started;
}

at::Tensor Ring::finish(Hop& hop) const {
  return around_([&] {
    at::Tensor received = hop.received.wait();
    hop.sent.wait();
    return received;
  });
}

Ring::Result Ring::forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const AttentionKernel& kernel) const {
  std::vector<Result> results(cut_.of(axis_.rank).size());
  at::Tensor held = at::stack({key, value});
  for (int hop = 0; hop < axis_.size; ++hop) {
    const bool more = hop + 1 < axis_.size;
    Hop next = more ? begin(held, hop, key_tag) : Hop();
    for (const Block& block : blocks(hop)) {
      const Result part =
          kernel.block(cut(query, block.query), cut(held[0], block.key), cut(held[1], block.key), block.causal);
      results[block.piece] = merged(results[block.piece], part);
    }
    if (more) held = finish(next);
  }
  return joined(results);
}

Ring::Gradients Ring::backward(const at::Tensor& slope, const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, const Result& whole, const AttentionKernel& kernel) const {
  const auto type = wide(query.scalar_type());
  const at::Tensor by_query = at::zeros(query.sizes(), query.options().dtype(type));
  at::Tensor held = at::stack({key, value});
  Hop gradient;  // the transfer that brings the gradient of the keys and values which this rank holds
  for (int hop = 0; hop < axis_.size; ++hop) {
    const bool more = hop + 1 < axis_.size;
    Hop next = more ? begin(held, hop, key_tag) : Hop();
    at::Tensor sum = at::zeros(held.sizes(), held.options().dtype(type));
    for (const Block& block : blocks(hop)) {
      const auto [q, k, v] =
          kernel.block_backward(cut(slope, block.query), cut(query, block.query), cut(held[0], block.key),
                                cut(held[1], block.key), cut(whole, block.query), block.causal);
      cut(by_query, block.query).add_(q);
      cut(sum[0], block.key).add_(k);
      cut(sum[1], block.key).add_(v);
    }
    if (hop > 0) sum += finish(gradient);
    gradient = begin(sum, hop, gradient_tag);
    if (more) held = finish(next);
  }
  const at::Tensor own = finish(gradient);
  return {by_query, own[0], own[1]};
}

at::Tensor ring_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const std::shared_ptr<const Ring>& ring,
                          const std::shared_ptr<const AttentionKernel>& kernel) {
  return RingAttention::apply(query, key, value, c10::make_intrusive<Passes>(ring, kernel));
}

}  // namespace dpbench::context
