// Wrong strategies with mistakes in expert parallelism: in the exchange of tokens, in gradients of experts and of
// shared parameters, in the balance loss, in clipping and evaluation. Also contains correct strategies.
#include <ATen/ATen.h>

#include "strategies/experts/exchange.h"
#include "strategies/layout/layout.h"
#include "strategies/parts/shard_sums.h"
#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace expert_mistakes {

using experts::Exchange;
using layout::Held;

enum class Mistake {
  none,
  // mistakes in the exchange of tokens
  sent_to_the_next_rank,
  returned_in_another_order,
  last_token_lost,
  sent_in_bfloat16,
  sent_twice,
  added_twice,
  gradient_of_inputs_lost,
  gradient_of_outputs_lost,
  gradient_in_another_order,
  // mistakes in gradients
  experts_not_divided,
  experts_divided_twice,
  experts_summed_over_ranks,
  others_not_averaged,
  others_summed,
  router_not_averaged,
  experts_not_averaged_over_dp,
  // mistakes in the balance loss
  balance_without_gradient,
  balance_divided_by_ranks,
  balance_left_out,
  // mistakes in the update, clipping and evaluation
  experts_not_updated,
  norm_without_experts,
  norm_counts_all_ranks,
  norm_of_own_experts,
  samples_of_rank_0_evaluated,
};

// The exchange of tokens with a mistake. A layer calls exchange() twice: with tokens for the experts, then with the
// experts' outputs.
class WrongExchange : public Exchange {
 public:
  WrongExchange(const Exchange& right, Mistake mistake) : Exchange(right), mistake_(mistake) {}

  std::vector<std::vector<int64_t>> counts(const std::vector<int64_t>& mine) const override {
    returns_ = false;
    return Exchange::counts(mine);
  }

  at::Tensor exchange(const at::Tensor& rows, const std::vector<int64_t>& sent,
                      const std::vector<int64_t>& received) const override {
    const bool returns = returns_;
    returns_ = true;
    const auto moved = [&](const at::Tensor& tensor) { return Exchange::exchange(tensor, sent, received); };
    switch (mistake_) {
      case Mistake::sent_in_bfloat16:
        return moved(rows.to(at::kBFloat16)).to(rows.scalar_type());
      case Mistake::sent_twice:
        moved(rows);
        return moved(rows);
      default:
        return returns ? returned(rows, moved) : dispatched(rows, moved);
    }
  }

 private:
  template <class Moved>
  at::Tensor dispatched(const at::Tensor& rows, const Moved& moved) const {
    if (mistake_ == Mistake::gradient_of_inputs_lost) return moved(rows.detach());
    if (mistake_ == Mistake::sent_to_the_next_rank) return moved(rows.roll(1, 0));
    if (mistake_ != Mistake::last_token_lost) return moved(rows);
    at::Tensor kept = at::ones({rows.size(0), 1}, rows.options());
    if (rows.size(0) > 0) kept[-1].zero_();
    return moved(rows * kept);
  }

  template <class Moved>
  at::Tensor returned(const at::Tensor& rows, const Moved& moved) const {
    if (mistake_ == Mistake::returned_in_another_order) return moved(rows.flip(0));
    if (mistake_ == Mistake::added_twice) return moved(rows) * 2;
    if (mistake_ == Mistake::gradient_of_outputs_lost) {
      const at::Tensor lost = rows.detach();
      return moved(rows * 0 + lost);
    }
    const at::Tensor found = moved(rows);
    if (mistake_ == Mistake::gradient_in_another_order && found.requires_grad())
      found.register_hook([](const at::Tensor& gradient) { return gradient.flip(0); });
    return found;
  }

  Mistake mistake_;
  mutable bool returns_ = false;
};

class WrongExperts : public layout::Layout {
 public:
  WrongExperts(const Setup& setup, Mistake mistake) : Layout(setup, {.name = "ep"}), mistake_(mistake) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    std::vector<at::Tensor> before;
    for (const Held& one : of_experts()) before.push_back(one.stored.detach().clone());
    StepResult result = Layout::step(step, micro, phases);
    if (!is(Mistake::experts_not_updated)) return result;
    const auto now = of_experts();
    for (size_t i = 0; i < now.size(); ++i) now[i].stored.detach().copy_(before[i]);
    return result;
  }

  at::Tensor forward(const Batch& mine) override {
    return Layout::forward(is(Mistake::samples_of_rank_0_evaluated) ? with_input_of_rank_0(mine, axes_.ep) : mine);
  }

 protected:
  std::shared_ptr<const ExpertSplit> make_expert_exchange(Phases* phases) const override {
    return std::make_shared<WrongExchange>(Exchange(axes_.ep, options_.name, replica_.device(), phases), mistake_);
  }

  at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split,
                     size_t micros) const override {
    const int64_t last = output.size(-1) - 1;
    const at::Tensor logits = output.narrow(-1, 0, last), balance = output.narrow(-1, last, 1);
    const auto with = [&](const at::Tensor& other) {
      return Layout::loss_of(at::cat({logits, other}, -1), target, split, micros);
    };
    if (is(Mistake::balance_without_gradient)) return with(balance.detach());
    if (is(Mistake::balance_divided_by_ranks)) return with(balance / axes_.ep.size);
    if (is(Mistake::balance_left_out)) return with(at::zeros_like(balance));
    return Layout::loss_of(output, target, split, micros);
  }

  void average_over_replicas() const override {
    if (!is(Mistake::experts_not_averaged_over_dp)) return Layout::average_over_replicas();
    sum_over(axes_.replicas, gradients_of(of_others()), axes_.replicas.size);
  }

  void average_over_experts() const override {
    const auto others = gradients_of(model_.own_if([this](const Held& one) {
      return !model_.is_expert(one) &&
             !(is(Mistake::router_not_averaged) && one.name().find("router") != std::string::npos);
    }));
    if (!is(Mistake::others_not_averaged)) sum_over(axes_.ep, others, is(Mistake::others_summed) ? 1 : axes_.ep.size);
    if (is(Mistake::experts_summed_over_ranks)) sum_over(axes_.ep, gradients_of(of_experts()));
    const int times = is(Mistake::experts_not_divided) ? 0 : is(Mistake::experts_divided_twice) ? 2 : 1;
    for (int i = 0; i < times; ++i)
      for (const at::Tensor& gradient : gradients_of(of_experts())) gradient.div_(axes_.ep.size);
  }

  void clip() const override {
    const auto own = gradients_of(of_experts()), others = gradients_of(of_others()), all = gradients_of(model_.own);
    const auto clip = [&](const std::vector<at::Tensor>& counted, c10d::ProcessGroup* group,
                          const std::vector<at::Tensor>& copies) {
      clip_parts(counted, *clip_norm_, at::kCPU, {group}, copies);
    };
    if (is(Mistake::norm_without_experts)) return clip(others, nullptr, own);
    if (is(Mistake::norm_counts_all_ranks)) return clip(all, axes_.ep.group.get(), {});
    if (is(Mistake::norm_of_own_experts)) return clip(all, nullptr, {});
    Layout::clip();
  }

 private:
  bool is(Mistake mistake) const { return mistake_ == mistake; }
  std::vector<Held> of_experts() const {
    return model_.own_if([this](const Held& one) { return model_.is_expert(one); });
  }
  std::vector<Held> of_others() const {
    return model_.own_if([this](const Held& one) { return !model_.is_expert(one); });
  }

  Mistake mistake_;
};

Mutant mutant(const std::string& name, Mistake mistake, const std::string& killed_by, const std::string& key_term,
              const std::string& mesh = "ep=3", const std::string& workload = "probe-experts",
              const std::string& model = "") {
  const auto info = [=] {
    StrategyInfo made =
        on_axes("ep", {"ep", "dp"}, [=](const Setup& setup) { return std::make_unique<WrongExperts>(setup, mistake); });
    made.traffic = strategy_registry().at("ep").traffic;
    return made;
  };
  return on_mesh("experts-" + name, killed_by, key_term, info, workload, mesh, model);
}

}  // namespace expert_mistakes

std::vector<Mutant> expert_mutants() {
  using namespace expert_mistakes;
  using enum expert_mistakes::Mistake;
  // With six experts, each rank of ep=2 or ep=3 has the same number of experts.
  constexpr char even[] = "tiny-experts,experts=6", wrong_model[] = "wrong model", backward[] = "backward pass",
                 grid[] = "dp=2,ep=2";
  return {
      mutant("sent-to-the-next-rank", sent_to_the_next_rank, "output-value", wrong_model),
      mutant("returned-in-another-order", returned_in_another_order, "output-value", wrong_model),
      mutant("last-token-lost", last_token_lost, "output-value", wrong_model),
      mutant("sent-in-bfloat16", sent_in_bfloat16, "output-replay", "narrower dtype"),
      mutant("sent-twice", sent_twice, "collective-bytes", "1.5 times"),
      mutant("added-twice", added_twice, "output-value", wrong_model),
      mutant("gradient-of-inputs-lost", gradient_of_inputs_lost, "gradient-meaning", backward),
      mutant("gradient-of-outputs-lost", gradient_of_outputs_lost, "gradient-meaning", backward),
      mutant("gradient-in-another-order", gradient_in_another_order, "gradient-meaning", backward),
      mutant("experts-not-divided", experts_not_divided, "gradient-meaning", "are 3 times"),
      mutant("experts-divided-twice", experts_divided_twice, "gradient-meaning", "0.333333 times"),
      mutant("experts-summed-over-ranks", experts_summed_over_ranks, "gradient-meaning", "mlp.experts", "ep=3", "gpt",
             even),
      mutant("others-not-averaged", others_not_averaged, "gradient-meaning", "not reduced"),
      mutant("others-summed", others_summed, "gradient-meaning", "are 3 times"),
      mutant("router-not-averaged", router_not_averaged, "gradient-meaning", "not reduced"),
      mutant("experts-not-averaged-over-dp", experts_not_averaged_over_dp, "gradient-meaning", "shares 0.5, 0.5", grid),
      mutant("balance-without-gradient", balance_without_gradient, "gradient-meaning", backward),
      mutant("balance-divided-by-the-ranks", balance_divided_by_ranks, "loss-value", "wrong targets"),
      mutant("balance-left-out", balance_left_out, "loss-value", "wrong targets"),
      mutant("experts-not-updated", experts_not_updated, "optimizer-replay", "not updated|optimizer"),
      mutant("norm-without-experts", norm_without_experts, "clip",
             "without the parameters that are cut over the axis ep"),
      mutant("norm-counts-all-ranks", norm_counts_all_ranks, "clip",
             "counts each undivided parameter once for each rank|axis ep"),
      mutant("norm-of-own-experts", norm_of_own_experts, "ranks-agree-gradients", "every rank"),
      mutant("evaluates-samples-of-rank-0", samples_of_rank_0_evaluated, "evaluation", "another rank's"),
      mutant("right", none, "", ""),
      mutant("right-grid", none, "", "", grid),
      mutant("right-integers", none, "", "", "ep=3", "gpt-exact-experts"),
      mutant("right-gpt2", none, "", "", "ep=2", "gpt", "tiny,experts=4,top_k=2,capacity=1"),
  };
}

}  // namespace dpbench::wrong
