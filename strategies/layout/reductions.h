// The reductions of the gradients at the end of a step, in the order in which a step calls them. All are collective.
#pragma once

#include "strategies/layout/passes.h"
#include "strategies/layout/rank_model.h"

namespace dpbench::layout {

// Takes the gradients of this rank's rows from the units of sharded parameters. Called only if parameters are sharded.
// A parameter is left without a gradient if no rank used it (with find_unused), or if this rank did not use it (without
// find_unused).
void take_gradients(RankModel& model);
// Some parameters are not cut over tp although each rank of tp computes only an addend of their gradient. This function
// sums these gradients over tp.
void sum_partial(const RankModel& model);
// Sums all gradients over cp, because each rank's gradients cover only its own tokens.
void sum_tokens(const RankModel& model);
// Sums over pp the gradients of each parameter that several stages use, in the order of its stages.
void sum_tied(const RankModel& model, const Passes& passes);
// Averages all gradients over dp, unless they were averaged when sharded parameters were reduced. If find_unused is off
// and gradients are averaged over dp, shard or ep, throws before that if a trainable parameter has no gradient.
void average_over_replicas(const RankModel& model);
// Divides the gradients of experts by the number of ranks of ep, and averages all other gradients over ep.
void average_over_experts(const RankModel& model);
// Throws if the gradient of a parameter that is whole on each rank of tp differs between these ranks.
void verify(const RankModel& model);
// Scales all gradients so that the norm of the whole gradient is at most `limit`.
void clip(const RankModel& model, double limit);

}  // namespace dpbench::layout
