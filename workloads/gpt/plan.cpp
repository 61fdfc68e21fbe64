#include "workloads/gpt/plan.h"

#include <ATen/ATen.h>

#include "workloads/base/error.h"

namespace dpbench::gpt {
namespace {

void require(int64_t count, int ranks, const std::string& what) {
  if (count < ranks)
    throw UsageError("tensor parallelism over " + std::to_string(ranks) + " ranks: the model has only " +
                     std::to_string(count) + " " + what);
}

// Adds the cuts of one transformer layer to a tensor-parallel plan. prefix: start of the names of the layer's
// parameters.
class LayerCuts {
 public:
  LayerCuts(TensorPlan& plan, std::string prefix, bool biased)
      : plan_(plan), prefix_(std::move(prefix)), biased_(biased) {}

  void outputs(const std::string& layer, const std::vector<int64_t>& sizes) {
    plan_.cuts.push_back({prefix_ + layer + ".weight", 0, sizes});
    if (biased_) plan_.cuts.push_back({prefix_ + layer + ".bias", 0, sizes});
  }
  void inputs(const std::string& layer, const std::vector<int64_t>& sizes) {
    plan_.cuts.push_back({prefix_ + layer + ".weight", 1, sizes});
  }
  void partial(const std::string& layer) {
    plan_.partial.push_back(prefix_ + layer + ".weight");
    if (biased_) plan_.partial.push_back(prefix_ + layer + ".bias");
  }

 private:
  TensorPlan& plan_;
  std::string prefix_;
  bool biased_;
};

}  // namespace

TensorPlan plan_of(const Shape& shape, int ranks) {
  require(shape.heads, ranks, "attention heads");
  require(shape.mlp, ranks, "features in its MLP");
  require(shape.vocab, ranks, "tokens in its vocabulary");
  TensorPlan plan;
  plan.tokens = shape.seq;
  plan.cuts.push_back({"model.embed_tokens.weight", 0, even_pieces(shape.vocab, ranks)});
  if (!shape.tied) plan.cuts.push_back({"lm_head.weight", 0, even_pieces(shape.vocab, ranks)});
  // Cuts the query heads: a rank has whole groups, each with the key and value head that it shares. If there are fewer
  // key and value heads than ranks, groups are cut too.
  const bool shared = shape.kv_heads >= ranks;
  const int64_t size = shape.head_size(), group = shared ? shape.heads / shape.kv_heads : 1;
  const auto heads = even_pieces(shape.hidden, ranks, group * size);
  const auto features = even_pieces(shape.mlp, ranks);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    LayerCuts cuts(plan, "model.layers." + std::to_string(layer) + ".", shape.style == Style::gpt2);
    cuts.outputs("self_attn.q_proj", heads);
    for (const char* name : {"self_attn.k_proj", "self_attn.v_proj"})
      if (shared)
        cuts.outputs(name, even_pieces(shape.kv_heads * size, ranks, size));
      else
        cuts.partial(name);
    cuts.inputs("self_attn.o_proj", heads);
    if (shape.style == Style::llama) cuts.outputs("mlp.gate_proj", features);
    cuts.outputs("mlp.up_proj", features);
    cuts.inputs("mlp.down_proj", features);
  }
  // The forward pass has one allreduce for the embedding and two for each layer (attention, MLP). The backward pass has
  // one for the head instead of the embedding. Autocast converts only the products of the layers: the embedding and the
  // inputs of divided layers, which come from a norm, stay in float32.
  const int64_t activation = shape.seq * shape.hidden;
  plan.left[0].add(activation);
  for (size_t layer = first_layer; layer < first_layer + static_cast<size_t>(shape.layers); ++layer)
    for (int sum = 0; sum < 2; ++sum) {
      plan.left[layer].add(activation, /*is_cast=*/!shape.exact);
      plan.entered[layer].add(activation);
    }
  plan.entered[head_block(shape)].add(activation);
  // Numbers that the loss sums over ranks: one per sample for gpt-exact, else two per token, the sum of exponentials
  // and the label's logit.
  plan.totals.add(shape.exact ? 1 : 2 * shape.seq);
  if (!shape.exact) plan.maxima.add(shape.seq);
  return plan;
}

at::Tensor split_cross_entropy(const at::Tensor& logits, const at::Tensor& target, const Piece& columns,
                               const TensorSplit& split) {
  const auto wide = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor all = logits.flatten(0, 1).to(wide), labels = target.flatten();
  const at::Tensor largest = split.maximum(all.detach().amax(1, /*keepdim=*/true));
  const at::Tensor shifted = all - largest;
  const at::Tensor local = labels - columns.first;
  const at::Tensor foreign = local.lt(0).logical_or(local.ge(columns.size));
  const at::Tensor own = shifted.gather(1, local.masked_fill(foreign, 0).unsqueeze(1)).squeeze(1);
  const at::Tensor sums = split.total(at::stack({shifted.exp().sum(1), own.masked_fill(foreign, 0)}));
  return (sums[0].log() - sums[1]).masked_fill(labels.eq(no_target), 0);
}

}  // namespace dpbench::gpt
