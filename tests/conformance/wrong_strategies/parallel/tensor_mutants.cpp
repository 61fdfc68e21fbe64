// Wrong strategies with mistakes in tensor and sequence parallelism: in the exchange of activations, the loss over a
// divided vocabulary, the gradients of whole parameters, clipping, dropout, state. Also contains correct strategies.
#include <ATen/ATen.h>

#include "strategies/layout/layout.h"
#include "strategies/parts/shard_sums.h"
#include "tests/conformance/wrong_strategies/mutant.h"
#include "tests/conformance/wrong_strategies/parallel/smoothed_gpt.h"

namespace dpbench::wrong {
namespace tensor_mistakes {

using namespace tensor;
using layout::Held;

enum class Mistake {
  none,
  // mistakes in the exchange of activations
  column_input_not_summed,
  column_input_averaged,
  column_input_summed_in_attention_only,
  product_not_summed,
  product_averaged,
  sum_has_a_gradient_sum,
  bias_added_by_each_rank,
  bias_added_before_the_sum,
  border_token_embedded_twice,
  first_chunk_again,
  sums_in_two_calls,
  input_not_summed_before_a_look,
  sequence_gather_loses_its_sum,
  sequence_gathered_in_reverse,
  sequence_of_the_head_gathered_in_reverse,
  last_piece_not_gathered,
  first_piece_gathered_for_all,
  masks_of_the_first_features,
  // mistakes in sequence parallelism
  masks_of_the_first_piece,
  last_norm_not_summed,
  norms_not_summed,
  row_biases_not_summed,
  whole_gradients_averaged,
  // mistakes in the loss
  border_label_counted_twice,
  first_label_not_counted,
  label_on_its_own_rank_only,
  maximum_of_the_own_piece,
  denominator_of_the_own_piece,
  padding_counted,
  tokens_of_the_own_piece,
  tokens_summed,
  smoothed_over_the_own_piece,
  loss_by_ranks,
  pieces_joined_in_reverse,
  // mistakes in gradients
  shared_heads_not_summed,
  shared_keys_not_summed,
  shared_biases_not_summed,
  whole_gradients_summed,
  replicas_not_averaged,
  replicas_weighted_by_tokens,
  averaged_over_all_ranks,
  ids_of_replica_0,
  // mistakes in clipping
  whole_gradients_clipped_by_each,
  clipped_by_rank,
  cut_gradients_clipped_once,
  // mistakes in state and evaluation
  starts_without_broadcast,
  loads_the_first_piece,
  samples_of_rank_0_evaluated,
};

class WrongExchange : public Exchange {
 public:
  WrongExchange(const Axis& axis, const Options& options, int64_t tokens, Phases* phases, Mistake mistake,
                const Model& model)
      : Exchange(axis, options, tokens, phases), mistake_(mistake), model_(model) {}

  void begin_block(const std::string& name) const override {
    Exchange::begin_block(name);
    entered_ = 0, left_ = 0;
  }

  // The mistake masks_of_the_first_features: every rank computes its features' dropout mask as if it was rank 0.
  int rank() const override { return is(Mistake::masks_of_the_first_features) ? 0 : Exchange::rank(); }

  Piece sequence() const override {
    Piece piece = Exchange::sequence();
    if (is(Mistake::masks_of_the_first_piece) && block_ != "model.embed_tokens") piece.first = 0;
    return piece;
  }

  at::Tensor enter(const at::Tensor& x) const override {
    const bool attention = entered_++ == 0;
    if (is(Mistake::column_input_not_summed)) return x;
    if (is(Mistake::column_input_summed_in_attention_only) && !attention) return x;
    if (is(Mistake::sequence_gather_loses_its_sum) && options_.sequence) return gathered_without_sum(x);
    at::Tensor whole = Exchange::enter(x);
    if (options_.sequence) whole = wrongly_joined(whole);
    if (is(Mistake::column_input_averaged)) divide_gradient(whole);
    return whole;
  }

  at::Tensor leave(const at::Tensor& x, const Product& product) const override {
    const int number = left_++;
    // The mistake product_not_summed: returns this rank's own product, without the sum over ranks.
    if (is(Mistake::product_not_summed) && block_ == "model.layers.1") return product(x);
    if (is(Mistake::border_token_embedded_twice) && block_ == "model.embed_tokens") return embedded_twice(x, product);
    if (is(Mistake::first_chunk_again) && x.size(0) > 1)
      return Exchange::leave(x, [&](const at::Tensor& part) {
        return product(part.size(0) < x.size(0) ? x.narrow(0, 0, part.size(0)) : part);
      });
    if (is(Mistake::bias_added_before_the_sum) && block_ == "model.layers.1")
      return Exchange::leave(x, [&](const at::Tensor& part) { return with_biases(product(part), number); });
    const at::Tensor sum = Exchange::leave(x, product);
    if (is(Mistake::product_averaged)) return sum / ranks();
    if (is(Mistake::sum_has_a_gradient_sum)) return sum + (sum - sum.detach()) * (ranks() - 1);
    if (is(Mistake::bias_added_by_each_rank)) return with_biases(sum, number);
    return sum;
  }

  at::Tensor join(const at::Tensor& piece, int64_t dim, const std::vector<int64_t>& sizes) const override {
    const at::Tensor whole = Exchange::join(piece, dim, sizes);
    if (!is(Mistake::pieces_joined_in_reverse)) return whole;
    auto pieces = whole.split_with_sizes(sizes, dim);
    std::ranges::reverse(pieces);
    return at::cat(pieces, dim);
  }

  at::Tensor maximum(const at::Tensor& x) const override {
    return is(Mistake::maximum_of_the_own_piece) ? x : Exchange::maximum(x);
  }

  at::Tensor total(const at::Tensor& x) const override {
    if (is(Mistake::denominator_of_the_own_piece)) return at::stack({x[0], Exchange::total(x)[1]});
    if (is(Mistake::label_on_its_own_rank_only)) return at::stack({Exchange::total(x)[0], x[1]});
    return Exchange::total(x);
  }

 private:
  bool is(Mistake mistake) const { return mistake_ == mistake; }

  void divide_gradient(const at::Tensor& tensor) const {
    if (tensor.requires_grad())
      tensor.register_hook([by = ranks()](const at::Tensor& gradient) { return gradient / by; });
  }

  // A mistake: the gather's backward pass returns this rank's own gradient of its piece, not the sum over ranks.
  at::Tensor gathered_without_sum(const at::Tensor& x) const { return varying_to_invariant(x, axis_, tokens_); }

  // A mistake: returns the gathered sequence with its pieces in the wrong order, or with a piece missing.
  at::Tensor wrongly_joined(const at::Tensor& whole) const {
    auto pieces = whole.split_with_sizes(tokens_.sizes, 1);
    const bool of_head = is(Mistake::sequence_of_the_head_gathered_in_reverse) && block_ == "lm_head";
    if (of_head || is(Mistake::sequence_gathered_in_reverse)) std::ranges::reverse(pieces);
    if (is(Mistake::last_piece_not_gathered)) pieces.back() = pieces.back() * 0;
    if (is(Mistake::first_piece_gathered_for_all) && block_ == "lm_head")
      for (at::Tensor& piece : pieces) piece = pieces.front().narrow(1, 0, piece.size(1));
    return at::cat(pieces, 1);
  }

  at::Tensor with_biases(const at::Tensor& sum, int number) const {
    const std::string layer = number == 0 ? ".self_attn.o_proj.bias" : ".mlp.down_proj.bias";
    const auto parameters = model_.named_parameters();
    const at::Tensor* bias = parameters.find(block_ + layer);
    return bias ? sum + *bias * (ranks() - 1) : sum;
  }

  // An off-by-one mistake: rank 0 treats the end of its piece of the vocabulary as inclusive. It then also embeds the
  // first token of rank 1's piece, with the vector of its own last token.
  at::Tensor embedded_twice(const at::Tensor& ids, const Product& product) const {
    const int64_t vocabulary = 257, next = even_pieces(vocabulary, ranks()).front();
    return Exchange::leave(ids, [&](const at::Tensor& part) {
      if (rank() != 0) return product(part);
      return product(at::where(part.eq(next), next - 1, part));
    });
  }

  Mistake mistake_;
  const Model& model_;
  // numbers of inputs that this block has gathered and of outputs that it has summed so far
  mutable int entered_ = 0, left_ = 0;
};

class WrongTensorParallel : public layout::Layout {
 public:
  WrongTensorParallel(const Setup& setup, Mistake mistake)
      : Layout(setup, {.name = "tp", .tensor = options_of(setup.params)}), mistake_(mistake) {
    if (!is(Mistake::starts_without_broadcast)) return;
    const auto own = setup.workload.model(setup.init_seed);
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : replica_.trainable())
      if (!model_.tensors.is_cut(name)) tensor.detach().copy_(own->named_parameters()[name]);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    std::vector<Batch> batches(micro.begin(), micro.end());
    if (is(Mistake::ids_of_replica_0))
      for (Batch& batch : batches) batch.ids = at::arange(batch.ids.numel(), batch.ids.options());
    return Layout::step(step, batches, phases);
  }

  NamedTensors parameters() override {
    looked_ = true;
    return Layout::parameters();
  }

  at::Tensor forward(const Batch& mine) override {
    return Layout::forward(is(Mistake::samples_of_rank_0_evaluated) ? with_input_of_rank_0(mine, axes_.tp) : mine);
  }

 protected:
  std::shared_ptr<const TensorSplit> make_exchange(const Options& options, int64_t tokens,
                                                   Phases* phases) const override {
    Options changed = options;
    if (is(Mistake::sums_in_two_calls)) changed.chunks = 2;
    const bool unseen = is(Mistake::input_not_summed_before_a_look) && !looked_;
    return std::make_shared<WrongExchange>(axes_.tp, changed, tokens, phases,
                                           unseen ? Mistake::column_input_not_summed : mistake_,
                                           *replica_.shared_model());
  }

  at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split,
                     size_t micros) const override {
    if (is(Mistake::border_label_counted_twice) || is(Mistake::first_label_not_counted))
      return loss_with_border(output, target, split) / static_cast<double>(micros);
    const at::Tensor loss = Layout::loss_of(output, target, split, micros);
    tokens_ = target.ge(0).sum().to(loss.scalar_type());
    if (is(Mistake::padding_counted)) return loss * (tokens_ / static_cast<double>(target.numel()));
    if (is(Mistake::tokens_summed)) return loss * tokens_;
    if (is(Mistake::tokens_of_the_own_piece)) {
      const Piece own = split.tensor->sequence();
      return loss * (tokens_ / target.narrow(1, own.first, own.size).ge(0).sum().clamp_min(1));
    }
    if (is(Mistake::smoothed_over_the_own_piece))
      return loss + loss_too_smooth(output, target, split) / static_cast<double>(micros);
    return is(Mistake::loss_by_ranks) ? loss / axes_.tp.size : loss;
  }

  void sum_partial() const override {
    const auto skips = [&](const std::string& name) {
      const auto has = [&](const char* text) { return name.find(text) != std::string::npos; };
      if (is(Mistake::last_norm_not_summed)) return has("model.norm");
      if (is(Mistake::norms_not_summed)) return has("norm");
      if (is(Mistake::row_biases_not_summed)) return has("o_proj.bias") || has("down_proj.bias");
      if (is(Mistake::shared_keys_not_summed)) return has("k_proj");
      if (is(Mistake::shared_biases_not_summed)) return has("k_proj.bias") || has("v_proj.bias");
      return is(Mistake::shared_heads_not_summed) && (has("k_proj") || has("v_proj"));
    };
    const auto summed = model_.own_if([&](const Held& one) {
      const bool whole = is(Mistake::whole_gradients_summed) && !model_.is_cut(one);
      return whole || (model_.is_partial(one) && !skips(one.name()));
    });
    sum_over(axes_.tp, gradients_of(summed), is(Mistake::whole_gradients_averaged) ? axes_.tp.size : 1);
  }

  void average_over_replicas() const override {
    if (is(Mistake::replicas_not_averaged)) return;
    if (is(Mistake::replicas_weighted_by_tokens)) return average_by_tokens();
    if (!is(Mistake::averaged_over_all_ranks)) return Layout::average_over_replicas();
    sum_over(axes_.replicas, gradients_of(model_.trainable()), axes_.replicas.size * axes_.tp.size);
  }

  void clip() const override {
    std::vector<at::Tensor> counted, copies;
    for (const auto& [name, tensor] : replica_.trainable()) {
      const bool cut = model_.tensors.is_cut(name);
      const bool counts = is(Mistake::cut_gradients_clipped_once)        ? axes_.tp.rank == 0
                          : is(Mistake::whole_gradients_clipped_by_each) ? true
                                                                         : axes_.tp.rank == 0 || cut;
      (counts ? counted : copies).push_back(tensor.grad());
    }
    clip_parts(counted, *clip_norm_, at::kCPU, {is(Mistake::clipped_by_rank) ? nullptr : axes_.tp.group.get()}, copies);
  }

  void load(const Snapshot& snapshot) override {
    Layout::load(snapshot);
    if (!is(Mistake::loads_the_first_piece)) return;
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : replica_.trainable())
      if (model_.tensors.is_cut(name) && tensor.dim() > 0) {
        const at::Tensor& whole = *find(snapshot.parameters, name);
        for (int64_t dim = 0; dim < whole.dim(); ++dim)
          if (whole.size(dim) != tensor.size(dim)) tensor.detach().copy_(whole.narrow(dim, 0, tensor.size(dim)));
      }
  }

 private:
  bool is(Mistake mistake) const { return mistake_ == mistake; }

  // A mistake: weights each replica by its number of tokens, as in a mean over the tokens of all replicas.
  void average_by_tokens() const {
    std::vector<at::Tensor> all = {tokens_.clone()};
    axes_.replicas.group->allreduce(all)->wait();
    const auto gradients = gradients_of(model_.trainable());
    for (const at::Tensor& gradient : gradients) gradient.mul_(tokens_ / all[0]);
    sum_over(axes_.replicas, gradients);
  }

  // Off-by-one mistakes. border_label_counted_twice: each rank treats the end of its piece of the vocabulary as
  // inclusive. It then also counts labels that are the first token of the next rank's piece, with the logit of its own
  // last token. first_label_not_counted: each rank treats the start of its piece as exclusive.
  at::Tensor loss_with_border(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split) const {
    const at::Tensor right = workload_.split_loss(output, target, split);
    const int64_t vocabulary = 257;
    const Piece mine = own_piece(vocabulary, *split.tensor);
    const bool twice = is(Mistake::border_label_counted_twice);
    const at::Tensor border = target.eq(twice ? mine.first + mine.size : mine.first);
    const at::Tensor largest = split.tensor->maximum(output.detach().amax(2));
    const at::Tensor logit = output.select(2, twice ? mine.size - 1 : 0) - largest;
    const at::Tensor sum = split.tensor->total(logit.masked_fill(border.logical_not(), 0).sum());
    return right + sum * (twice ? -1 : 1) / target.ge(0).sum().to(output.scalar_type());
  }

  // A mistake in label smoothing: the mean over the vocabulary divides by the size of this rank's piece. Returns the
  // difference from the correct loss of smoothed-gpt.
  at::Tensor loss_too_smooth(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split) const {
    const at::Tensor counted = target.ge(0).to(output.scalar_type());
    const at::Tensor logits = (output.sum(2) * counted).sum() / counted.sum();
    const double whole = smoothed::vocabulary, piece = static_cast<double>(output.size(2));
    return split.tensor->total(logits * (smoothed::smoothing * (1 / whole - 1 / piece)));
  }

  Mistake mistake_;
  bool looked_ = false;        // true after the first call of parameters()
  mutable at::Tensor tokens_;  // number of tokens in the loss of the last micro-batch
};

std::vector<ParamInfo> with_defaults(const ParamValues& values) {
  std::vector<ParamInfo> all = parameters();
  for (ParamInfo& one : all)
    if (const auto value = values.find(one.name); value != values.end()) one.fallback = value->second;
  return all;
}

Mutant mutant(const std::string& name, Mistake mistake, const std::string& killed_by, const std::string& key_term,
              const ParamValues& params = {}, const std::string& workload = "gpt", const std::string& mesh = "tp=3",
              const std::string& model = "") {
  const auto info = [=] {
    return on_axes(
        "tp", {"tp", "dp"}, [=](const Setup& setup) { return std::make_unique<WrongTensorParallel>(setup, mistake); },
        with_defaults(params));
  };
  return on_mesh(name, killed_by, key_term, info, workload, mesh, model);
}

// Returns the mutant with the traffic formula of tp.
Mutant with_traffic(Mutant one) {
  one.strategy = [make = one.strategy] {
    StrategyInfo info = make();
    info.traffic = strategy_registry().at("tp").traffic;
    return info;
  };
  return one;
}

}  // namespace tensor_mistakes

std::vector<Mutant> tensor_mutants() {
  using namespace tensor_mistakes;
  using enum tensor_mistakes::Mistake;
  const ParamValues sequence = {{"sequence", "on"}}, chunks = {{"chunks", "2"}};
  const auto on_grid = [](const std::string& name, Mistake mistake, const std::string& check, const std::string& term,
                          const ParamValues& params = {}) {
    return mutant(name, mistake, check, term, params, "gpt", "dp=2,tp=2");
  };
  return {
      mutant("tensor-input-gradient-not-summed", column_input_not_summed, "gradient-meaning",
             "from model.norm on|not summed|axis tp"),
      mutant("tensor-input-gradient-averaged", column_input_averaged, "gradient-meaning",
             "from model.norm on|0.333333 times|3 ranks"),
      mutant("tensor-input-gradient-summed-in-attention-only", column_input_summed_in_attention_only,
             "gradient-meaning", "from model.layers.1.post_attention_layernorm on|this rank"),
      mutant("tensor-product-not-summed", product_not_summed, "output-value", "a sum"),
      mutant("tensor-product-averaged", product_averaged, "output-value", "missing, averaged"),
      mutant("tensor-gradient-of-a-sum-summed-again", sum_has_a_gradient_sum, "gradient-meaning",
             "from model.layers.1.mlp.down_proj on|3 times|summed over"),
      mutant("tensor-bias-added-by-each-rank", bias_added_by_each_rank, "output-value", "made twice"),
      mutant("tensor-border-token-embedded-twice", border_token_embedded_twice, "output-value", "the token 86"),
      mutant("tensor-first-chunk-again", first_chunk_again, "output-value", "only samples", chunks),
      with_traffic(mutant("tensor-sums-in-two-calls", sums_in_two_calls, "collective-bytes", "17 calls instead of 12")),
      mutant("tensor-sequence-gradient-not-summed", sequence_gather_loses_its_sum, "gradient-meaning", "backward pass",
             sequence),
      mutant("tensor-sequence-gathered-in-reverse", sequence_gathered_in_reverse, "output-value", "pieces|sequence",
             sequence),
      mutant("tensor-sequence-of-the-head-gathered-in-reverse", sequence_of_the_head_gathered_in_reverse,
             "output-value", "wrong order: 8 to 10, 4 to 7, 0 to 3", sequence),
      mutant("tensor-last-piece-not-gathered", last_piece_not_gathered, "output-value", "rank 2 of the axis tp|missing",
             sequence),
      mutant("tensor-first-piece-gathered-for-all", first_piece_gathered_for_all, "output-value",
             "twice: 0 to 3, 0 to 3, 0 to 2", sequence),
      mutant("tensor-masks-of-the-first-piece", masks_of_the_first_piece, "output-value",
             "indices 4 to 10 of dimension 1|ranks 1 to 2 of the axis tp", sequence),
      mutant("tensor-masks-of-the-first-features", masks_of_the_first_features, "output-value", "dropout mask", {},
             "probe-mlp"),
      mutant("tensor-last-norm-not-summed", last_norm_not_summed, "gradient-meaning", "not summed|axis tp", sequence),
      mutant("tensor-norms-not-summed", norms_not_summed, "gradient-meaning", "not summed|axis tp", sequence),
      mutant("tensor-row-biases-not-summed", row_biases_not_summed, "gradient-meaning", "not summed|axis tp", sequence),
      mutant("tensor-whole-gradients-averaged", whole_gradients_averaged, "gradient-meaning", "0.333333 times",
             sequence),
      mutant("tensor-border-label-counted-twice", border_label_counted_twice, "loss-value",
             "label on the border of two pieces|two ranks of the axis tp"),
      mutant("tensor-first-label-not-counted", first_label_not_counted, "loss-value",
             "first label of each piece|no rank of the axis tp"),
      mutant("tensor-label-on-its-own-rank-only", label_on_its_own_rank_only, "loss-value",
             "the label's logit|piece of the vocabulary|not summed over the axis tp"),
      mutant("tensor-maximum-of-the-own-piece", maximum_of_the_own_piece, "loss-value",
             "the maximum of this rank's piece of the vocabulary|axis tp"),
      mutant("tensor-denominator-of-the-own-piece", denominator_of_the_own_piece, "loss-value",
             "the sum of exponentials|piece of the vocabulary|not summed over the axis tp"),
      mutant("tensor-padding-counted", padding_counted, "loss-value", "all tokens, padding included"),
      mutant("tensor-divides-by-the-tokens-of-the-own-piece", tokens_of_the_own_piece, "loss-value",
             "tokens of this rank's piece of the sequence|axis tp", sequence),
      mutant("tensor-labels-smoothed-over-the-own-piece", smoothed_over_the_own_piece, "loss-value",
             "piece of the vocabulary|axis tp|label smoothing", {}, "smoothed-gpt"),
      mutant("tensor-loss-divided-by-the-ranks", loss_by_ranks, "gradient-meaning", "0.333333 times"),
      mutant("tensor-types-of-an-input-not-summed", column_input_not_summed, "activation-types",
             "in model.layers.0 on axis tp|invariant (I)|invariant_to_replicate"),
      mutant("tensor-types-of-steps-before-a-look", input_not_summed_before_a_look, "activation-types",
             "in model.layers.0 on axis tp|invariant (I)"),
      mutant("tensor-types-of-a-sequence-gathered-without-its-sum", sequence_gather_loses_its_sum, "activation-types",
             "in model.layers.0 on axis tp|invariant (I)", sequence),
      mutant("tensor-types-of-a-product-not-summed", product_not_summed, "activation-types",
             "add in model.layers.1|invariant (I)"),
      mutant("tensor-types-of-a-bias-before-the-sum", bias_added_before_the_sum, "activation-types",
             "add in model.layers.1|partial (P)|reduce first", sequence),
      mutant("tensor-pieces-joined-in-reverse", pieces_joined_in_reverse, "output-value", "wrong order"),
      mutant("tensor-shared-heads-not-summed", shared_heads_not_summed, "gradient-meaning", "not summed|axis tp", {},
             "gpt", "tp=3", "tiny-llama"),
      mutant("tensor-shared-keys-not-summed", shared_keys_not_summed, "gradient-meaning", "not summed|axis tp", {},
             "gpt", "tp=3", "tiny-llama"),
      mutant("tensor-shared-biases-not-summed", shared_biases_not_summed, "gradient-meaning", "not summed|axis tp", {},
             "gpt", "tp=3", "tiny,kv_heads=1"),
      mutant("tensor-whole-gradients-summed", whole_gradients_summed, "gradient-meaning", "3 times"),
      mutant("tensor-whole-gradients-clipped-by-each", whole_gradients_clipped_by_each, "clip",
             "counts each undivided parameter once for each rank|axis tp"),
      mutant("tensor-clips-by-rank", clipped_by_rank, "clip", "its own pieces|not summed over the axis tp"),
      mutant("tensor-counts-pieces-of-rank-0", cut_gradients_clipped_once, "clip",
             "the pieces of rank 0 of the axis tp only|not summed"),
      mutant("tensor-starts-without-broadcast", starts_without_broadcast, "initial-broadcast", "not broadcast"),
      mutant("tensor-loads-the-first-piece", loads_the_first_piece, "reload-midway", "load()", {}, "probe-mlp"),
      mutant("tensor-evaluates-samples-of-rank-0", samples_of_rank_0_evaluated, "evaluation", "another rank's"),
      on_grid("tensor-replicas-not-averaged", replicas_not_averaged, "gradient-meaning", "not reduced"),
      on_grid("tensor-replicas-weighted-by-tokens", replicas_weighted_by_tokens, "gradient-meaning",
              "the mean over all samples", sequence),
      on_grid("tensor-tokens-summed", tokens_summed, "loss-value", "summed over tokens", sequence),
      on_grid("tensor-averages-over-all-ranks", averaged_over_all_ranks, "gradient-meaning", "averaged over 2"),
      on_grid("tensor-masks-of-replica-0", ids_of_replica_0, "output-value", "dropout mask"),
      mutant("tensor-right", none, "", ""),
      mutant("tensor-right-sequence", none, "", "", sequence),
      mutant("tensor-right-chunks", none, "", "", chunks),
      mutant("tensor-right-integers", none, "", "", sequence, "gpt-exact"),
      mutant("tensor-right-integers-on-four-ranks", none, "", "", {}, "gpt-exact", "tp=4", "heads=6"),
      mutant("tensor-right-smoothed", none, "", "", {}, "smoothed-gpt"),
      mutant("tensor-right-shared-heads", none, "", "", {}, "gpt", "tp=3", "tiny-llama"),
      on_grid("tensor-right-on-a-grid", none, "", ""),
      with_traffic(on_grid("tensor-right-calls", none, "", "", {{"sequence", "on"}, {"chunks", "2"}})),
  };
}

}  // namespace dpbench::wrong
