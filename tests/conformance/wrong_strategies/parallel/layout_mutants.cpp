// Mistakes of layouts, which combine two kinds of parallelism: sums over a wrong axis, missing or repeated sums, wrong
// divisors, tied parameters, norms that count elements twice or not at all. Also contains correct variants.
#include <algorithm>

#include <ATen/ATen.h>

#include "strategies/layout/layout.h"
#include "strategies/layout/traffic.h"
#include "strategies/parts/shard_sums.h"
#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace layout_mistakes {

using layout::Held;
using layout::Options;

enum class Mistake {
  none,
  // mistakes with tied parameters
  tie_not_summed,
  tie_averaged,
  tie_summed_over_tp_too,
  // mistakes in sums and divisors
  norms_summed_over_dp,
  norms_not_summed,
  averaged_over_the_whole_mesh,
  averaged_over_dp_and_pp,
  pieces_divided_by_tp,
  rows_divided_by_all_ranks,
  first_stage_not_averaged,
  cut_parameters_not_averaged,
  loss_divided_by_stages,
  parts_weighed_equally,
  // mistakes in clipping
  clips_without_tp,
  clips_without_pp,
  clips_without_shard,
  clips_with_dp,
  clips_whole_parameters_by_each,
  clips_the_tie_twice,
  // mistakes in the choice of samples
  masks_of_replica_0,
  targets_of_replica_0,
  samples_read_again_by_id,
  // a sum that changes no result, but adds traffic
  superfluous_sum,
};

class WrongLayout : public layout::Layout {
 public:
  WrongLayout(const Setup& setup, const Options& options, Mistake mistake)
      : Layout(setup, options), mistake_(mistake) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    std::vector<Batch> batches(micro.begin(), micro.end());
    terms_ = 0, rows_ = 0;
    for (Batch& batch : batches) {
      terms_ += tokens_in(batch), rows_ += batch.samples();
      if (is(Mistake::masks_of_replica_0)) batch.ids = at::arange(batch.ids.numel(), batch.ids.options());
      if (is(Mistake::samples_read_again_by_id)) batch = workload_.batch(batch.ids);
      if (!is(Mistake::targets_of_replica_0)) continue;
      std::vector<at::Tensor> target = {batch.target.clone()};
      axes_.replicas.group->broadcast(target)->wait();
      batch.target = target[0];
    }
    return Layout::step(step, batches, phases);
  }

 protected:
  at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split,
                     size_t micros) const override {
    const at::Tensor loss = Layout::loss_of(output, target, split, micros);
    // The mistake parts_weighed_equally: each part of a batch (a pipeline micro-batch) gets the weight 1 / number of
    // parts. The factor below puts this weight in place of the correct one, the part's share of the batch's tokens.
    if (is(Mistake::parts_weighed_equally) && micros == 1)
      return loss * (terms_ / target.ge(0).sum().item<double>() /
                     static_cast<double>(std::min(rows_, options_.pipeline.microbatches)));
    return is(Mistake::loss_divided_by_stages) ? loss / axes_.pp.size : loss;
  }

  void sum_partial() const override {
    if (is(Mistake::norms_not_summed)) return;
    if (is(Mistake::norms_summed_over_dp))
      return sum_over(axes_.replicas,
                      gradients_of(model_.own_if([this](const Held& one) { return model_.is_partial(one); })));
    Layout::sum_partial();
    if (is(Mistake::rows_divided_by_all_ranks)) divide(gradients_of(model_.own), axes_.tp.size * axes_.pp.size);
    if (is(Mistake::pieces_divided_by_tp)) divide(gradients_of(cut()), axes_.tp.size);
  }

  void sum_tied() override {
    if (is(Mistake::tie_not_summed)) return;
    Layout::sum_tied();
    if (is(Mistake::tie_averaged)) divide(gradients_of(tied()), 2);
    if (is(Mistake::tie_summed_over_tp_too)) sum_over(axes_.tp, gradients_of(tied()));
  }

  void average_over_replicas() const override {
    if (is(Mistake::averaged_over_the_whole_mesh))
      return sum_over(axes_.world, gradients_of(model_.own), axes_.world.size);
    if (is(Mistake::averaged_over_dp_and_pp))
      return sum_over(axes_.replicas, gradients_of(model_.own), axes_.replicas.size * axes_.pp.size);
    if (is(Mistake::superfluous_sum)) sum_over(axes_.pp, {at::zeros({1})});
    if (is(Mistake::first_stage_not_averaged) && axes_.pp.rank == 0) return;
    if (is(Mistake::cut_parameters_not_averaged)) {
      const auto whole = model_.own_if([this](const Held& one) { return !model_.is_cut(one); });
      return sum_over(axes_.replicas, gradients_of(whole), axes_.replicas.size);
    }
    Layout::average_over_replicas();
  }

  void clip() const override {
    std::vector<at::Tensor> counted, copies;
    for (const Held& one : model_.own) {
      if (!one.stored.grad().defined()) continue;
      const bool first_stage = model_.owner_of(*one.placed) == axes_.pp.rank || is(Mistake::clips_the_tie_twice);
      const bool first_part = axes_.tp.rank == 0 || model_.is_cut(one) || is(Mistake::clips_whole_parameters_by_each);
      (first_stage && first_part ? counted : copies).push_back(one.stored.grad());
    }
    std::vector<c10d::ProcessGroup*> groups;
    if (!is(Mistake::clips_without_shard)) groups.push_back(axes_.shard.group.get());
    if (!is(Mistake::clips_without_pp)) groups.push_back(axes_.pp.group.get());
    if (!is(Mistake::clips_without_tp)) groups.push_back(axes_.tp.group.get());
    if (is(Mistake::clips_with_dp)) groups.push_back(axes_.replicas.group.get());
    clip_parts(counted, *clip_norm_, at::kCPU, groups, copies);
  }

 private:
  bool is(Mistake mistake) const { return mistake_ == mistake; }

  static void divide(const std::vector<at::Tensor>& gradients, double divisor) {
    for (const at::Tensor& one : gradients) one.div_(divisor);
  }
  std::vector<Held> tied() const {
    return model_.own_if([](const Held& one) { return one.placed->tied(); });
  }
  std::vector<Held> cut() const {
    return model_.own_if([this](const Held& one) { return model_.is_cut(one); });
  }

  Mistake mistake_;
  // Numbers of tokens (terms_) and samples (rows_) that this rank has in the step.
  double terms_ = 0;
  int64_t rows_ = 0;
};

Mutant mutant(const std::string& mesh, const std::string& name, Mistake mistake, const std::string& killed_by,
              const std::string& key_term, const Options& options = {}, const std::string& workload = "gpt",
              const std::string& model = "") {
  const auto info = [=] {
    return on_axes("layout", {"dp", "shard", "cp", "pp", "tp"},
                   [=](const Setup& setup) { return std::make_unique<WrongLayout>(setup, options, mistake); });
  };
  return on_mesh("layout-" + name, killed_by, key_term, info, workload, mesh, model);
}

// Returns the mutant with the traffic formula of a layout with these options.
Mutant with_traffic(Mutant one, const Options& options = {}) {
  one.strategy = [make = one.strategy, options] {
    StrategyInfo info = make();
    info.traffic = [options](const TrafficQuery& query) { return layout::traffic(options, query); };
    return info;
  };
  return one;
}

}  // namespace layout_mistakes

std::vector<Mutant> layout_mutants() {
  using namespace layout_mistakes;
  using enum layout_mistakes::Mistake;
  const Options sequence{.tensor = {.sequence = true}};
  const Options parts{.pipeline = {.microbatches = 3}};
  const Options sharded{.sharded = fsdp::Options{.reduce_each_micro = false}};
  // All sizes of this model are even, so that pieces of different ranks have the same shapes.
  constexpr char even[] = "layers=2,hidden=16,heads=4,mlp=32,seq=8,vocab=128";
  constexpr char both[] = "pp=2,tp=2", dp_pp[] = "dp=2,pp=2", dp_tp[] = "dp=2,tp=2", shard_tp[] = "shard=2,tp=2",
                 shard_pp[] = "shard=2,pp=2";
  return {
      mutant(both, "tie-not-summed", tie_not_summed, "gradient-meaning", "embed_tokens"),
      mutant(both, "tie-averaged", tie_averaged, "gradient-meaning", "embed_tokens"),
      mutant(both, "tie-summed-over-tp-too", tie_summed_over_tp_too, "gradient-meaning", "embed_tokens", {}, "gpt",
             even),
      mutant(shard_pp, "tie-of-rows-not-summed", tie_not_summed, "gradient-meaning", "embed_tokens", sharded),
      mutant(dp_tp, "norms-summed-over-dp", norms_summed_over_dp, "gradient-meaning", "embed_positions", sequence),
      mutant(both, "norms-not-summed", norms_not_summed, "gradient-meaning", "not summed|axis tp", sequence),
      mutant(dp_tp, "averaged-over-the-whole-mesh", averaged_over_the_whole_mesh, "gradient-meaning", "another axis",
             {}, "gpt", even),
      mutant(dp_pp, "averaged-over-dp-and-pp", averaged_over_dp_and_pp, "gradient-meaning", "averaged over 2"),
      mutant(both, "pieces-divided-by-tp", pieces_divided_by_tp, "gradient-meaning", "0.5 times"),
      mutant(shard_tp, "rows-divided-by-all-ranks", rows_divided_by_all_ranks, "gradient-meaning", "averaged over 2",
             sharded),
      mutant(dp_pp, "first-stage-not-averaged", first_stage_not_averaged, "gradient-meaning", "not reduced"),
      mutant(dp_tp, "pieces-not-averaged", cut_parameters_not_averaged, "gradient-meaning", "not reduced"),
      mutant(both, "loss-divided-by-the-stages", loss_divided_by_stages, "gradient-meaning", "0.5 times"),
      mutant(dp_pp, "parts-weighed-equally", parts_weighed_equally, "loss-value", "the mean", parts),
      mutant(both, "clips-without-tp", clips_without_tp, "clip", "its own pieces|not summed over the axis tp"),
      mutant(both, "clips-without-pp", clips_without_pp, "clip", "changed after", {.pipeline = {.blocks = "3+2"}}),
      mutant(shard_tp, "clips-without-shard", clips_without_shard, "clip", "changed after", sharded),
      mutant(dp_pp, "clips-with-dp", clips_with_dp, "clip", "each element was added once for each rank"),
      mutant(both, "clips-whole-parameters-by-each", clips_whole_parameters_by_each, "clip",
             "counts each undivided parameter once for each rank|axis tp"),
      mutant(both, "clips-the-tie-twice", clips_the_tie_twice, "clip", "tied parameter|embed_tokens|counted 2 times"),
      mutant(dp_pp, "masks-of-replica-0", masks_of_replica_0, "output-value", "dropout mask"),
      mutant(dp_tp, "targets-of-replica-0", targets_of_replica_0, "loss-value", "wrong targets"),
      mutant(dp_tp, "samples-read-again-by-id", samples_read_again_by_id, "perturbation", "its id"),
      with_traffic(mutant("pp=2", "superfluous-sum", superfluous_sum, "collective-bytes", "allreduce over pp")),
      with_traffic(mutant(both, "superfluous-sum-beside-tp", superfluous_sum, "collective-bytes", "allreduce over pp")),
      with_traffic(mutant(shard_pp, "superfluous-sum-of-rows", superfluous_sum, "collective-bytes", "allreduce over pp",
                          sharded),
                   sharded),
      with_traffic(mutant(dp_pp, "right-traffic", none, "", "")),
      with_traffic(mutant(both, "right-traffic-of-pieces", none, "", "", sequence), sequence),
      with_traffic(mutant(shard_pp, "right-traffic-of-units", none, "", "", sharded), sharded),
      with_traffic(mutant("cp=2,tp=2", "right-traffic-of-tokens", none, "", "", sequence), sequence),
      mutant(both, "right", none, "", ""),
      mutant(shard_tp, "right-in-rows", none, "", "", sharded),
      mutant(shard_pp, "right-integers", none, "", "", sharded, "gpt-exact"),
  };
}

}  // namespace dpbench::wrong
