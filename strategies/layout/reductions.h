// The reductions of the gradients at the end of a step, in the order in which a step calls them. All are collective.
#pragma once

#include "strategies/layout/passes.h"
#include "strategies/layout/rank_model.h"

namespace dpbench::layout {

// Sets the gradients of the rows of parameters that this rank stores. With find_unused, a parameter gets no gradient if
// no rank used it; without find_unused, if this rank did not use it. Called only if parameters are sharded.
void take_gradients(RankModel& model);
// Sums over tp the gradients of the whole parameters for which each rank computes only a part of the gradient.
void sum_partial(const RankModel& model);
// Sums all gradients over cp, because each rank's gradients cover only its own tokens.
void sum_tokens(const RankModel& model);
// Sums over pp the gradients of each parameter that several stages use, in the order of its stages.
void sum_tied(const RankModel& model, const Passes& passes);
// Averages all gradients over dp, unless the units of sharded parameters have already averaged them. If
// find_unused is off and gradients are averaged over dp, shard or ep, first throws if a trainable parameter has no
// gradient.
void average_over_replicas(const RankModel& model);
// Divides the gradients of experts by the number of ranks of ep, and averages all other gradients over ep.
void average_over_experts(const RankModel& model);
// Throws if the gradient of a parameter that is whole on each rank of tp differs between these ranks.
void verify(const RankModel& model);
// Scales all gradients so that the norm of the whole gradient is at most `limit`.
void clip(const RankModel& model, double limit);

}  // namespace dpbench::layout
