// The table of all conformance checks with their meanings, printed by `dpbench list checks`. Every check result of a
// conformance case uses a name from this table.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "harness/report/record/case.h"

namespace dpbench {

// Kind of a failed check, in order from cause to effect: within a step, wrong gradients cause wrong updates, which
// cause wrong buffers and outputs. A failure of kind explains_all sorts before all others, even those of earlier steps.
enum class Effect { explains_all, cause, update, buffers, output };

struct CheckMeaning {
  std::string_view name, summary;
  Effect effect = Effect::cause;
  bool proves_gradient = false;  // true if passing the check proves a gradient or an update correct
  bool usual = false;            // true if the scenario `even` of the conformance suite includes this check
};

namespace check_table {

// Returns the table entry of a check that, if passed, proves a gradient or an update correct.
constexpr CheckMeaning proof(std::string_view name, std::string_view summary) {
  return {name, summary, Effect::cause, true};
}

constexpr CheckMeaning usual(CheckMeaning check) {
  check.usual = true;
  return check;
}

// In the descriptions of checks, "replayed" means: computed again in the dtype of the case, from the strategy's own
// state before the step. The counterparts without "-replay", such as loss-value for loss-replay, compare with the
// float64 oracle (reference computation).
inline constexpr auto all = std::to_array<CheckMeaning>(
    {usual({"run-completes", "every rank completes every step without an exception", Effect::explains_all}),
     usual({"output-shape", "one output row per sample of the rank, as wide as the model's output", Effect::output}),
     usual({"output-dtype", "the output has the requested dtype (float32 under autocast)", Effect::output}),
     usual({"output-value", "the output equals the oracle's", Effect::output}),
     {"output-replay", "the output equals the replayed one", Effect::output},
     usual({"loss-finite", "each step returns one finite loss", Effect::output}),
     usual({"loss-value", "the loss equals the oracle's", Effect::output}),
     {"loss-replay", "the loss equals the replayed one", Effect::output},
     {"loss-falls", "the loss falls within 20 steps", Effect::output},
     proof("gradient-meaning", "the gradient has the declared meaning, e.g. the mean over all samples"),
     proof("gradient-replay", "the gradient equals the replayed one, within what rounding allows"),
     usual(proof("gradient-vs-baseline", "the gradient equals the single device's on the same samples")),
     proof("gradient-uneven", "gradient-meaning with a different number of samples on each rank"),
     proof("gradient-uneven-replay", "gradient-replay with a different number of samples on each rank"),
     proof("gradient-exact", "integer gradients, exact in any order of summation, match bit for bit"),
     proof("gradient-accuracy", "on smooth models, the error stays within the bound derived for the dtype"),
     usual({"gradient-layout", "each gradient has its parameter's strides, as torch promises for .grad"}),
     proof("gradient-later", "gradient-replay after 19 steps"),
     proof("accumulation", "micro-batches add up to the declared gradient"),
     proof("accumulation-replay", "the replay of accumulated micro-batches matches"),
     proof("perturbation", "another sample on one rank changes the gradients of all ranks, as the oracle's"),
     {"two-backwards", "a step of two identical micro-batches has the declared gradient"},
     {"clip", "the gradient is clipped by its global norm, and only above the limit"},
     {"clip-replay", "the replay of a clipped step matches"},
     {"empty-shard", "correct with fewer samples than ranks"},
     {"late-collectives", "correct if ranks are late to their collectives"},
     {"reload-midway", "correct after parameters are replaced between steps"},
     {"load-other-state",
      "a step is correct after loading parameters, buffers and optimizer state of another training"},
     usual(proof("unused-parameters", "a parameter that no rank used gets no gradient, or is refused by name")),
     usual({"frozen-parameters", "a parameter without requires_grad never changes"}),
     usual({"rows-untouched", "the strategy does not write to the samples of a step"}),
     usual({"initial-broadcast", "all ranks start from rank 0's parameters and buffers", Effect::explains_all}),
     usual({"ranks-agree-gradients", "all ranks have the same gradients, bit for bit"}),
     usual({"ranks-agree-parameters", "all ranks have the same parameters, bit for bit", Effect::update}),
     usual({"ranks-agree-state", "all ranks have the same optimizer state, bit for bit", Effect::update}),
     usual({"buffers", "buffers such as BatchNorm's statistics follow the declared rule", Effect::buffers}),
     {"buffers-replay", "the replay of the buffers matches", Effect::buffers},
     usual({"optimizer-replay", "the optimizer moves parameters and state as torch's does with these gradients",
            Effect::update}),
     {"optimizer-state", "after many steps, each slot of the optimizer's state has the value that its name says",
      Effect::update},
     proof("trajectory", "up to 64 steps that nobody looks at end with the oracle's losses, parameters and buffers"),
     {"non-finite", "NaN or infinity on one rank reaches every rank's gradient"},
     {"non-finite-skipped", "a strategy that skips non-finite steps leaves parameters and state unchanged"},
     usual({"evaluation", "evaluation equals the single device's in evaluation mode and changes nothing",
            Effect::output}),
     {"evaluation-replay", "the replay of an evaluation matches", Effect::output},
     usual({"finish", "finish() leaves parameters, buffers and optimizer state unchanged"}),
     {"run-to-run", "two runs of the same steps give the same bits"},
     {"world-1-bits", "a world of 1 gives the bits of the baseline's gradients, and its parameters within rounding"},
     {"collective-order", "all ranks call the same collectives in the same order"},
     usual({"collective-count", "accumulation adds no reductions: one set per step, not per micro-batch"}),
     usual({"collective-bytes",
            "each collective operation carries the bytes of the strategy's own formula, in as many calls"}),
     usual({"activation-types", "no operation combines activations whose distributions over the ranks do not fit"}),
     {"live-parameters", "a strategy that frees parameters holds no more of them than its formula says"},
     {"reduction", "each reduction's result equals the sum of the ranks' inputs"},
     {"reduction-agrees", "each reduction's result is the same on all ranks, bit for bit"},
     {"reduction-range", "large gradients do not overflow in the reduction"},
     {"allreduce-exact", "the backend's allreduce is exact on integers"},
     {"allgather-exact", "the backend's allgather is exact"},
     {"reduce-scatter-exact", "the backend's reduce_scatter is exact on integers"},
     {"broadcast-exact", "the backend's broadcast is exact"},
     proof("audit", "steps of the timed run, looked at between its blocks at random moments, equal the oracle's"),
     {"chunk-tables", "replicas split a batch like torch.chunk and gather outputs in order"},
     {"data-each-once", "all ranks together see each sample once per epoch"},
     {"epoch-order", "each epoch has another order of samples"}});

}  // namespace check_table

// Returns the entry of a check; null if the table has no check of this name.
inline const CheckMeaning* find_check(std::string_view name) {
  const auto found = std::ranges::find(check_table::all, name, &CheckMeaning::name);
  return found == check_table::all.end() ? nullptr : &*found;
}

// Tells which of two results of a check stays: a failure before a check that was skipped through a mistake of the
// strategy (it has a likely cause) before a passed check before a skipped one.
inline int severity_of(const CheckRow& row) {
  if (row.status == CheckStatus::failed) return 3;
  if (row.status == CheckStatus::passed) return 1;
  return row.likely.empty() ? 0 : 2;
}

}  // namespace dpbench
