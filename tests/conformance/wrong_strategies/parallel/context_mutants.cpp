// Wrong strategies with mistakes in context parallelism: in ring attention (hops, masks, merging), in the heads of
// Ulysses attention, in positions, in the loss, in sums over the axis cp, and in traffic. Also contains correct
// strategies.
#include <map>

#include <ATen/ATen.h>

#include "strategies/layout/layout.h"
#include "strategies/layout/traffic.h"
#include "strategies/parts/shard_sums.h"
#include "strategies/pipeline/links.h"
#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace context_mistakes {

using namespace context;
using layout::Held;
using Kernel = std::shared_ptr<const AttentionKernel>;

enum class Mistake {
  none,
  // mistakes in ring attention
  gradient_one_hop_short,
  first_keys_in_backward,
  block_logarithm_in_backward,
  outputs_averaged,
  every_key_seen,
  own_piece_not_masked,
  later_keys_seen,
  // mistakes in Ulysses attention
  heads_in_reverse,
  keys_of_another_head,
  own_tokens_only,
  // mistakes in the positions of tokens
  contiguous_positions,
  positions_from_zero,
  rotated_from_zero,
  masks_of_the_first_piece,
  joined_by_rank,
  // mistakes in the loss
  loss_of_own_tokens,
  mean_of_means,
  last_token_dropped,
  targets_of_another_piece,
  second_term_divided_by_ranks,
  // mistakes in sums over ranks
  gradients_not_summed,
  gradients_averaged,
  loss_divided_by_ranks,
  norms_not_summed,
  summed_over_dp_too,
  averaged_over_all_ranks,
  // mistakes in clipping and evaluation
  clipped_with_cp,
  samples_of_rank_0_evaluated,
  // mistakes in traffic
  keys_sent_once_more,
  sent_in_float64,
};

// Attention kernel with a mistake: ring attention gets a wrong result for a block of keys.
class WrongKernel : public AttentionKernel {
 public:
  WrongKernel(Kernel right, Mistake mistake) : right_(std::move(right)), mistake_(mistake) {}

  at::Tensor whole(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) const override {
    return right_->whole(query, key, value);
  }
  Result block(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal) const override {
    const Result found = right_->block(query, key, value, causal && mistake_ != Mistake::own_piece_not_masked);
    if (mistake_ == Mistake::outputs_averaged) return {found.output, at::zeros_like(found.logsumexp)};
    return found;
  }
  Gradients block_backward(const at::Tensor& slope, const at::Tensor& query, const at::Tensor& key,
                           const at::Tensor& value, const Result& whole, bool causal) const override {
    if (mistake_ == Mistake::block_logarithm_in_backward)
      return right_->block_backward(slope, query, key, value, right_->block(query, key, value, causal), causal);
    if (mistake_ != Mistake::first_keys_in_backward)
      return right_->block_backward(slope, query, key, value, whole, causal);
    const auto& [first_key, first_value] = first_.try_emplace(key.size(2), key, value).first->second;
    return right_->block_backward(slope, query, first_key, first_value, whole, causal);
  }

 private:
  Kernel right_;
  Mistake mistake_;
  // The first key and value that this kernel got for each number of tokens.
  mutable std::map<int64_t, std::pair<at::Tensor, at::Tensor>> first_;
};

class WrongRing : public Ring {
 public:
  WrongRing(const Ring& right, Mistake mistake) : Ring(right), mistake_(mistake) {}

  // With the mistake gradient_one_hop_short, the gradients of keys and values stop one hop early in the ring. This rank
  // then returns those of the next rank's keys and values.
  Gradients backward(const at::Tensor& slope, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const Result& whole, const AttentionKernel& kernel) const override {
    const auto [by_query, by_key, by_value] = Ring::backward(slope, query, key, value, whole, kernel);
    if (mistake_ == Mistake::keys_sent_once_more) send_once_more(at::stack({key, value}));
    if (mistake_ != Mistake::gradient_one_hop_short) return {by_query, by_key, by_value};
    const auto of_next = [&](const at::Tensor& own) {
      std::vector<int64_t> sizes(static_cast<size_t>(axis_.size), own.numel());
      const at::Tensor all = varying_to_invariant(own.reshape({-1}), axis_, {0, sizes});
      return all.chunk(axis_.size)[static_cast<size_t>((axis_.rank + 1) % axis_.size)].view(own.sizes());
    };
    return {by_query, of_next(by_key), of_next(by_value)};
  }

 protected:
  Sight sight(const Piece& query, const Piece& key) const override {
    const Sight right = Ring::sight(query, key);
    if (mistake_ == Mistake::every_key_seen && right == Sight::nothing) return Sight::all;
    if (mistake_ == Mistake::later_keys_seen && right != Sight::causal)
      return right == Sight::all ? Sight::nothing : Sight::all;
    return right;
  }

 private:
  // A superfluous hop of the ring: no rank uses the keys and values that it receives. held: keys and values, stacked.
  void send_once_more(const at::Tensor& held) const {
    constexpr int tag = 2;  // ring attention uses the tags 0 and 1
    const int after = (axis_.rank + 1) % axis_.size, before = (axis_.rank + axis_.size - 1) % axis_.size;
    std::vector<int64_t> sizes = held.sizes().vec();
    sizes[token_dim + 1] = cut_.count(before);
    const pipeline::Links links(axis_, held.device(), poison_);
    pipeline::Transfer sent = links.send_like(held, after, tag);
    links.receive_sized(sizes, held.scalar_type(), before, tag).wait();
    sent.wait();
  }

  Mistake mistake_;
};

class WrongExchange : public Exchange {
 public:
  WrongExchange(const Axis& axis, const Options& options, int64_t tokens, Phases* phases, Mistake mistake)
      : Exchange(axis, options, tokens, phases), mistake_(mistake) {
    int64_t first = 0;
    for (Piece piece : Exchange::tokens()) {
      piece.first = first;
      first += piece.size;
      from_zero_.push_back(piece);
    }
    const TokenCut contiguous(tokens, axis.size, false);
    contiguous_ = contiguous.of(axis.rank);
    others_ = cut_.of((axis.rank + 1) % axis.size);
  }

  void begin_block(const std::string& name) const override {
    Exchange::begin_block(name);
    calls_ = 0;
  }

  // Returns the positions of this rank's tokens. Some mistakes change them for one use only. The number of the call
  // within a block tells the use: the block of the embeddings calls for the embedding and then for the position
  // embedding, and each layer calls for the dropout mask and then for the rotary embedding. The last call, after the
  // last block, is for the loss.
  const std::vector<Piece>& tokens() const override {
    const int call = calls_++;
    const bool embeds = block_ == "model.embed_tokens", layer = block_.starts_with("model.layers");
    if (is(Mistake::contiguous_positions)) return contiguous_;
    if (is(Mistake::positions_from_zero) && embeds && call > 0) return from_zero_;
    if (is(Mistake::rotated_from_zero) && layer && call > 0) return from_zero_;
    if (is(Mistake::masks_of_the_first_piece) && layer && call == 0) return from_zero_;
    if (is(Mistake::targets_of_another_piece) && block_ == "lm_head") return others_;
    return Exchange::tokens();
  }

  at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const Kernel& kernel) const override {
    if (is(Mistake::own_tokens_only)) return kernel->whole(query, key, value);
    const auto wrong = std::make_shared<const WrongKernel>(kernel, mistake_);
    if (is(Mistake::sent_in_float64))
      return Exchange::attend(query.to(at::kDouble), key.to(at::kDouble), value.to(at::kDouble), wrong)
          .to(query.scalar_type());
    return Exchange::attend(query, key, value, wrong);
  }

  // Sums a term of the loss over ranks. The first call of a micro-batch is for the cross-entropy, the second for the
  // smoothing term of the workload smoothed-gpt.
  at::Tensor total(const at::Tensor& x) const override {
    if (is(Mistake::loss_of_own_tokens)) return x;
    const at::Tensor sum = Exchange::total(x);
    const bool second = totals_++ > 0;
    const bool divided = is(Mistake::loss_divided_by_ranks) || (second && is(Mistake::second_term_divided_by_ranks));
    return divided ? sum / axis_.size : sum;
  }

  at::Tensor join(const at::Tensor& own, int64_t dim) const override {
    if (is(Mistake::joined_by_rank)) return varying_to_invariant(own, axis_, {dim, cut_.counts()});
    return Exchange::join(own, dim);
  }

 protected:
  std::shared_ptr<const Ring> ring() const override {
    return std::make_shared<const WrongRing>(*Exchange::ring(), mistake_);
  }
  at::Tensor to_heads(const at::Tensor& x, const std::vector<int64_t>& heads) const override {
    if (is(Mistake::keys_of_another_head) && ++exchanges_ % 3 == 2)
      return Exchange::to_heads(x.roll(1, head_dim), heads);
    return Exchange::to_heads(x, heads);
  }
  at::Tensor to_tokens(const at::Tensor& x, const std::vector<int64_t>& heads) const override {
    const at::Tensor right = Exchange::to_tokens(x, heads);
    return is(Mistake::heads_in_reverse) ? right.flip(head_dim) : right;
  }

 private:
  bool is(Mistake mistake) const { return mistake_ == mistake; }

  Mistake mistake_;
  std::vector<Piece> from_zero_, contiguous_, others_;
  mutable int calls_ = 0;  // number of times that this block has asked for its tokens' positions
  // Number of this block's all-to-alls from tokens to heads: first of the query, then of the key, then of the value.
  mutable int exchanges_ = 0;
  mutable int totals_ = 0;  // number of times that this block has asked for a sum over the ranks
};

class WrongContextParallel : public layout::Layout {
 public:
  WrongContextParallel(const Setup& setup, const Options& options, Mistake mistake)
      : Layout(setup, {.name = "cp", .context = options}), mistake_(mistake) {}

  at::Tensor forward(const Batch& mine) override {
    return Layout::forward(is(Mistake::samples_of_rank_0_evaluated) ? with_input_of_rank_0(mine, axes_.cp) : mine);
  }

 protected:
  std::shared_ptr<const SequenceSplit> make_exchange(const Options& options, int64_t tokens,
                                                     Phases* phases) const override {
    return std::make_shared<WrongExchange>(axes_.cp, options, tokens, phases, mistake_);
  }

  at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split,
                     size_t micros) const override {
    if (is(Mistake::last_token_dropped)) {
      at::Tensor shorter = target.clone();
      shorter.select(1, shorter.size(1) - 1).fill_(-100);
      return Layout::loss_of(output, shorter, split, micros);
    }
    if (is(Mistake::mean_of_means)) {
      const at::Tensor own = pieces_of(target, 1, split.sequence->tokens());
      return split.sequence->total(workload_.loss(output, own)) / static_cast<double>(axes_.cp.size) /
             static_cast<double>(micros);
    }
    return Layout::loss_of(output, target, split, micros);
  }

  void sum_tokens() const override {
    if (is(Mistake::gradients_not_summed)) return;
    const auto summed = model_.own_if([this](const Held& one) {
      return !is(Mistake::norms_not_summed) || one.name().find("norm") == std::string::npos;
    });
    sum_over(axes_.cp, gradients_of(summed), is(Mistake::gradients_averaged) ? axes_.cp.size : 1);
    if (is(Mistake::summed_over_dp_too)) sum_over(axes_.replicas, gradients_of(model_.own));
  }

  void average_over_replicas() const override {
    if (!is(Mistake::averaged_over_all_ranks)) return Layout::average_over_replicas();
    sum_over(axes_.replicas, gradients_of(model_.own), axes_.replicas.size * axes_.cp.size);
  }

  void clip() const override {
    if (!is(Mistake::clipped_with_cp)) return Layout::clip();
    clip_parts(gradients_of(model_.own), *clip_norm_, at::kCPU, {axes_.cp.group.get()});
  }

 private:
  bool is(Mistake mistake) const { return mistake_ == mistake; }

  Mistake mistake_;
};

Mutant mutant(const std::string& name, Mistake mistake, const std::string& killed_by, const std::string& key_term,
              const Options& options = {}, const std::string& workload = "gpt", const std::string& mesh = "cp=3",
              const std::string& model = "") {
  const auto info = [=] {
    return on_axes("cp", {"cp", "dp"},
                   [=](const Setup& setup) { return std::make_unique<WrongContextParallel>(setup, options, mistake); });
  };
  return on_mesh("context-" + name, killed_by, key_term, info, workload, mesh, model);
}

// Returns the mutant with the traffic formula of cp with these options.
Mutant with_traffic(Mutant one, const Options& options = {}) {
  one.strategy = [make = one.strategy, options] {
    StrategyInfo info = make();
    info.traffic = [options](const TrafficQuery& query) {
      return layout::traffic({.name = "cp", .context = options}, query);
    };
    return info;
  };
  return one;
}

}  // namespace context_mistakes

std::vector<Mutant> context_mutants() {
  using namespace context_mistakes;
  using enum context_mistakes::Mistake;
  const Options ring, ulysses{.kind = Kind::ulysses};
  // Sizes of a gpt model with which all ranks have equally large pieces of the sequence.
  constexpr char even[] = "layers=2,hidden=16,heads=4,mlp=32,seq=12,vocab=128";
  constexpr char wrong_model[] = "wrong model", backward[] = "backward pass", grid[] = "dp=2,cp=2";
  return {
      mutant("gradient-one-hop-short", gradient_one_hop_short, "gradient-meaning", backward, ring, "gpt", "cp=3", even),
      mutant("first-keys-in-the-backward-pass", first_keys_in_backward, "gradient-meaning", backward),
      mutant("logarithm-of-the-block-in-the-backward-pass", block_logarithm_in_backward, "gradient-meaning", backward),
      mutant("outputs-of-blocks-averaged", outputs_averaged, "output-value", wrong_model),
      mutant("every-key-seen", every_key_seen, "output-value", wrong_model),
      mutant("own-piece-not-masked", own_piece_not_masked, "output-value", wrong_model),
      mutant("later-keys-seen", later_keys_seen, "output-value", wrong_model),
      mutant("heads-in-reverse", heads_in_reverse, "output-value", wrong_model, ulysses),
      mutant("keys-of-another-head", keys_of_another_head, "output-value", wrong_model, ulysses),
      mutant("own-tokens-only", own_tokens_only, "output-value", wrong_model, ulysses),
      mutant("contiguous-positions", contiguous_positions, "output-value", wrong_model, ring, "gpt", "cp=3", even),
      mutant("positions-from-zero", positions_from_zero, "output-value", wrong_model),
      mutant("rotated-from-zero", rotated_from_zero, "output-value", wrong_model, ring, "gpt", "cp=3", "tiny-llama"),
      mutant("masks-of-the-first-piece", masks_of_the_first_piece, "output-value", wrong_model),
      mutant("joined-by-rank", joined_by_rank, "output-value", "wrong order"),
      mutant("loss-of-own-tokens", loss_of_own_tokens, "loss-value", "wrong targets"),
      mutant("mean-of-the-ranks-means", mean_of_means, "loss-value", "wrong targets"),
      mutant("last-token-dropped", last_token_dropped, "loss-value", "wrong targets"),
      mutant("targets-of-another-piece", targets_of_another_piece, "loss-value", "wrong targets", ring, "gpt", "cp=3",
             even),
      mutant("second-term-divided-by-the-ranks", second_term_divided_by_ranks, "loss-value", "not the mean", ring,
             "smoothed-gpt"),
      mutant("gradients-not-summed", gradients_not_summed, "gradient-meaning", "not summed|axis cp"),
      mutant("gradients-averaged", gradients_averaged, "gradient-meaning", "0.333333 times"),
      mutant("loss-divided-by-the-ranks", loss_divided_by_ranks, "gradient-meaning", "0.333333 times"),
      mutant("norms-not-summed", norms_not_summed, "gradient-meaning", "not summed|axis cp"),
      mutant("norms-not-summed-under-ulysses", norms_not_summed, "gradient-meaning", "not summed|axis cp", ulysses),
      mutant("summed-over-dp-too", summed_over_dp_too, "gradient-meaning", "2 times", ring, "gpt", grid),
      mutant("averages-over-all-ranks", averaged_over_all_ranks, "gradient-meaning", "averaged over 2", ring, "gpt",
             grid),
      mutant("clips-with-cp", clipped_with_cp, "clip", "each element was added once for each rank of the axis cp"),
      mutant("evaluates-samples-of-rank-0", samples_of_rank_0_evaluated, "evaluation", "another rank's"),
      with_traffic(mutant("keys-sent-once-more", keys_sent_once_more, "collective-bytes",
                          "send over cp carried 1.14286 times", ring, "gpt", "cp=3", even)),
      with_traffic(mutant("sent-in-float64", sent_in_float64, "collective-bytes", "send over cp carried 2 times")),
      with_traffic(mutant("right", none, "", "")),
      with_traffic(mutant("right-ulysses", none, "", "", ulysses, "gpt", "cp=2", "tiny-llama"), ulysses),
      mutant("right-smoothed", none, "", "", ring, "smoothed-gpt"),
      mutant("right-integers", none, "", "", {.zigzag = false}, "gpt-exact"),
  };
}

}  // namespace dpbench::wrong
