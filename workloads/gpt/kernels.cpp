#include "workloads/gpt/kernels.h"

#include <cmath>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>

namespace dpbench::gpt {
namespace {

// A group of query heads may share a key or value head. Repeats the shared heads, so that each query head has its own.
at::Tensor for_each_query(const at::Tensor& shared, const at::Tensor& query) {
  const int64_t group = query.size(1) / shared.size(1);
  return group == 1 ? shared : shared.repeat_interleave(group, 1);
}

// Sums the gradients of the query heads that share a key or value head.
at::Tensor for_shared_head(const at::Tensor& gradient, const at::Tensor& shared) {
  const int64_t group = gradient.size(1) / shared.size(1);
  return group == 1 ? gradient : gradient.unflatten(1, {shared.size(1), group}).sum(2);
}

at::Tensor wide(const at::Tensor& x) { return at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x; }

double scale_of(const at::Tensor& query) { return 1 / std::sqrt(static_cast<double>(query.size(3))); }

at::Tensor scores_of(const at::Tensor& query, const at::Tensor& key, bool causal) {
  at::Tensor scores = query.matmul(key.transpose(2, 3)) * scale_of(query);
  if (!causal) return scores;
  const at::Tensor hidden = at::ones({query.size(2), key.size(2)}, scores.options().dtype(at::kBool)).triu(1);
  return scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

class PlainSoftmax : public AttentionKernel {
 public:
  at::Tensor whole(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) const override {
    return at::scaled_dot_product_attention(query, key, value, /*attn_mask=*/{}, /*dropout_p=*/0, /*is_causal=*/true,
                                            /*scale=*/std::nullopt, /*enable_gqa=*/query.size(1) > key.size(1));
  }

  Result block(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal) const override {
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    return result(wide(query), wide(for_each_query(key, query)), wide(for_each_query(value, query)), causal);
  }

  Gradients block_backward(const at::Tensor& slope, const at::Tensor& query, const at::Tensor& key,
                           const at::Tensor& value, const Result& all, bool causal) const override {
    const auto [dq, dk, dv] = gradients(wide(slope), wide(query), wide(for_each_query(key, query)),
                                        wide(for_each_query(value, query)), all, causal);
    return {dq, for_shared_head(dk, key), for_shared_head(dv, value)};
  }

 protected:
  // Return the attention of queries over a block of keys, and its gradients. Keys and values have as many heads as
  // queries, because the caller repeats shared heads.
  virtual Result result(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal) const {
    const at::Tensor scores = scores_of(q, k, causal), logsumexp = scores.logsumexp(3);
    return {(scores - logsumexp.unsqueeze(3)).exp().matmul(v), logsumexp};
  }
  virtual Gradients gradients(const at::Tensor& slope, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const Result& all, bool causal) const {
    const at::Tensor weights = (scores_of(q, k, causal) - all.logsumexp.unsqueeze(3)).exp();
    const at::Tensor inner = (slope * all.output).sum(3, /*keepdim=*/true);
    const at::Tensor by_scores = weights * (slope.matmul(v.transpose(2, 3)) - inner) * scale_of(q);
    return {by_scores.matmul(k), by_scores.transpose(2, 3).matmul(q), weights.transpose(2, 3).matmul(slope)};
  }
};

class Softmax : public PlainSoftmax {
 protected:
  Result result(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal) const override {
    if (q.is_cpu()) {
      const auto [output, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, causal);
      return {output, logsumexp};
    }
    if (!has_efficient_kernel(q)) return PlainSoftmax::result(q, k, v, causal);
    const auto found = at::_scaled_dot_product_efficient_attention(q, k, v, {}, /*compute_log_sumexp=*/true, 0, causal);
    return {std::get<0>(found), std::get<1>(found).narrow(2, 0, q.size(2))};
  }

  Gradients gradients(const at::Tensor& slope, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const Result& all, bool causal) const override {
    if (q.is_cpu())
      return at::_scaled_dot_product_flash_attention_for_cpu_backward(slope, q, k, v, all.output, all.logsumexp, 0,
                                                                      causal);
    if (!has_efficient_kernel(q)) return PlainSoftmax::gradients(slope, q, k, v, all, causal);
    // Stands for the random state of dropout, which is not used.
    const at::Tensor none = at::empty({}, q.options().dtype(at::kLong));
    const auto found = at::_scaled_dot_product_efficient_attention_backward(
        slope, q, k, v, {}, all.output, padded(all.logsumexp), none, none, 0, {true, true, true, false}, causal);
    return {std::get<0>(found), std::get<1>(found), std::get<2>(found)};
  }

 private:
  static bool has_efficient_kernel(const at::Tensor& q) {
    // LibTorch's memory-efficient attention kernel requires a head size that is a multiple of `aligned`.
    constexpr int64_t aligned = 4;
    return q.is_cuda() && q.scalar_type() == at::kFloat && q.size(3) % aligned == 0;
  }

  // Pads the log-sum-exps (one per query), because LibTorch's memory-efficient attention kernel reads them in groups of
  // 32.
  static at::Tensor padded(const at::Tensor& logsumexp) {
    constexpr int64_t group = 32;
    const int64_t missing = (group - logsumexp.size(2) % group) % group;
    return at::constant_pad_nd(logsumexp, {0, missing}, std::numeric_limits<double>::infinity()).contiguous();
  }
};

class Exact : public AttentionKernel {
 public:
  at::Tensor whole(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) const override {
    return block(query, key, value, /*causal=*/true).output;
  }

  Result block(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal) const override {
    const at::Tensor scores = at::hardtanh(query.matmul(for_each_query(key, query).transpose(2, 3)), -1, 1);
    return {(causal ? scores.tril() : scores).matmul(for_each_query(value, query)), {}};
  }

  Gradients block_backward(const at::Tensor& slope, const at::Tensor& query, const at::Tensor& key,
                           const at::Tensor& value, const Result&, bool causal) const override {
    const at::AutoGradMode with_graph(true);
    std::vector<at::Tensor> inputs;
    for (const at::Tensor& x : {query, key, value}) inputs.push_back(x.detach().requires_grad_());
    const auto found = torch::autograd::grad({block(inputs[0], inputs[1], inputs[2], causal).output}, inputs, {slope});
    return {found[0], found[1], found[2]};
  }
};

}  // namespace

std::shared_ptr<const AttentionKernel> softmax_attention() {
  static const auto kernel = std::make_shared<const Softmax>();
  return kernel;
}

std::shared_ptr<const AttentionKernel> plain_softmax_attention() {
  static const auto kernel = std::make_shared<const PlainSoftmax>();
  return kernel;
}

std::shared_ptr<const AttentionKernel> exact_attention() {
  static const auto kernel = std::make_shared<const Exact>();
  return kernel;
}

}  // namespace dpbench::gpt
