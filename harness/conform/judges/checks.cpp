#include "harness/conform/judges/checks.h"

#include <algorithm>
#include <stdexcept>

namespace dpbench {

// In the descriptions of checks, "replayed" means: computed again in the dtype of the case, from the strategy's own
// state before the step. All other checks compare in float64.
const std::vector<CheckMeaning>& check_meanings() {
  static const std::vector<CheckMeaning> all = {
      {"run-completes", "every rank completes every step without an exception"},
      {"output-shape", "one output row per sample of the rank, as wide as the model's output"},
      {"output-dtype", "the output has the requested dtype (float32 under autocast)"},
      {"output-value", "the output equals the oracle's"},
      {"output-replay", "the output equals the replayed one"},
      {"loss-finite", "each step returns one finite loss"},
      {"loss-value", "the loss equals the oracle's"},
      {"loss-replay", "the loss equals the replayed one"},
      {"loss-falls", "the loss falls within 20 steps"},
      {"gradient-meaning", "the gradient has the declared meaning, e.g. the mean over all samples"},
      {"gradient-replay", "the gradient equals the replayed one, within what rounding allows"},
      {"gradient-vs-baseline", "the gradient equals the single device's on the same samples"},
      {"gradient-uneven", "gradient-meaning with a different number of samples on each rank"},
      {"gradient-uneven-replay", "gradient-replay with a different number of samples on each rank"},
      {"gradient-exact", "integer gradients, exact in any order of summation, match bit for bit"},
      {"gradient-accuracy", "on smooth models, the error stays within the bound derived for the dtype"},
      {"gradient-layout", "each gradient has its parameter's strides, as torch promises for .grad"},
      {"gradient-later", "gradient-replay after 19 steps"},
      {"accumulation", "micro-batches add up to the declared gradient"},
      {"accumulation-replay", "the replay of accumulated micro-batches matches"},
      {"two-backwards", "a step of two identical micro-batches has the declared gradient"},
      {"clip", "the gradient is clipped by its global norm, and only above the limit"},
      {"clip-replay", "the replay of a clipped step matches"},
      {"empty-shard", "correct with fewer samples than ranks"},
      {"late-collectives", "correct if one rank is late to its collectives"},
      {"reload-midway", "correct after parameters are replaced between steps"},
      {"unused-parameters", "a parameter that no rank used gets no gradient, or is refused by name"},
      {"frozen-parameters", "a parameter without requires_grad never changes"},
      {"rows-untouched", "the strategy does not write to the samples of a step"},
      {"initial-broadcast", "all ranks start from rank 0's parameters and buffers"},
      {"ranks-agree-gradients", "all ranks have the same gradients, bit for bit"},
      {"ranks-agree-parameters", "all ranks have the same parameters, bit for bit"},
      {"ranks-agree-state", "all ranks have the same optimizer state, bit for bit"},
      {"buffers", "buffers such as BatchNorm's statistics follow the declared rule"},
      {"buffers-replay", "the replay of the buffers matches"},
      {"optimizer-replay", "the optimizer moves parameters and state as torch's does with these gradients"},
      {"optimizer-state", "after many steps, each slot of the optimizer's state has the value that its name says"},
      {"trajectory", "64 steps that nobody looks at end with the oracle's losses, parameters and buffers"},
      {"non-finite", "NaN or infinity on one rank reaches every rank's gradient"},
      {"non-finite-skipped", "a strategy that skips non-finite steps leaves parameters and state unchanged"},
      {"evaluation", "evaluation equals the single device's in evaluation mode and changes nothing"},
      {"evaluation-replay", "the replay of an evaluation matches"},
      {"finish", "finish() leaves parameters, buffers and optimizer state unchanged"},
      {"run-to-run", "two runs of the same steps give the same bits"},
      {"world-1-bits", "a world of 1 gives the bits of the baseline's gradients, and its parameters within rounding"},
      {"collective-order", "all ranks call the same collectives in the same order"},
      {"collective-count", "accumulation adds no reductions: one set per step, not per micro-batch"},
      {"collective-bytes", "each collective operation carries the bytes of the strategy's own formula"},
      {"live-parameters", "a strategy that frees parameters holds no more of them than its formula says"},
      {"reduction", "each reduction's result equals the sum of the ranks' inputs"},
      {"reduction-agrees", "each reduction's result is the same on all ranks, bit for bit"},
      {"reduction-range", "large gradients do not overflow in the reduction"},
      {"allreduce-exact", "the backend's allreduce is exact on integers"},
      {"allgather-exact", "the backend's allgather is exact"},
      {"reduce-scatter-exact", "the backend's reduce_scatter is exact on integers"},
      {"broadcast-exact", "the backend's broadcast is exact"},
      {"audit", "steps of the timed run, looked at between its blocks at random moments, equal the oracle's"},
      {"chunk-tables", "replicas split a batch like torch.chunk and gather outputs in order"},
      {"data-each-once", "all ranks together see each sample once per epoch"},
      {"epoch-order", "each epoch has another order of samples"}};
  return all;
}

void require_check_meaning(const std::string& name) {
  const auto& all = check_meanings();
  if (std::none_of(all.begin(), all.end(), [&](const CheckMeaning& one) { return one.name == name; }))
    throw std::logic_error("check '" + name + "' has no entry in harness/conform/judges/checks.cpp");
}

}  // namespace dpbench
