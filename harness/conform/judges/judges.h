// The judges: functions that verify the recorded results of one scenario and add rows to the result table. They do not
// run the strategy. A check's name stands in the code that adds its row.
#pragma once

#include <vector>

#include "harness/conform/judges/rows.h"
#include "harness/conform/oracle/trial.h"

namespace dpbench {

using Judge = void (*)(const Trial& trial, Rows& rows);

// Allowed relative error of a float64 result: 15 times the largest error (6.6e-14) measured for correct strategies.
inline constexpr double exact_bound = 1e-12;

void judge_start(const Trial& trial, Rows& rows);    // checks parameters and buffers before the first step
void judge_outputs(const Trial& trial, Rows& rows);  // checks outputs and losses
// Checks gradients in float64: compares them with the oracle's and, if the scenario requests it, with those of a single
// device.
void judge_gradients(const Trial& trial, Rows& rows);
// Checks gradients in float32 or bfloat16 against a recomputation in the same dtype.
void judge_replay(const Trial& trial, Rows& rows);
void judge_accuracy(const Trial& trial, Rows& rows);    // checks gradients of models with softplus instead of ReLU
void judge_strides(const Trial& trial, Rows& rows);     // checks the strides of gradients
void judge_unused(const Trial& trial, Rows& rows);      // checks unused and frozen parameters
void judge_agreement(const Trial& trial, Rows& rows);   // checks that all ranks have equal gradients, parameters, state
void judge_buffers(const Trial& trial, Rows& rows);     // checks buffers such as BatchNorm's statistics
void judge_optimizer(const Trial& trial, Rows& rows);   // checks the optimizer's updates of parameters
void judge_poison(const Trial& trial, Rows& rows);      // checks the effects of a NaN or infinity in a sample
void judge_evaluation(const Trial& trial, Rows& rows);  // checks outputs, collectives and buffers of evaluations
void judge_reductions(const Trial& trial, Rows& rows);  // checks results of reductions and that ranks make equal calls
void judge_traffic(const Trial& trial, Rows& rows);     // checks bytes and calls of collectives
void judge_types(const Trial& trial, Rows& rows);       // checks how activations are distributed over ranks
void judge_memory(const Trial& trial, Rows& rows);      // checks the peak bytes of parameters and all-gathers in a step
void judge_learning(const Trial& trial, Rows& rows);    // checks that the loss falls
void judge_rows(const Trial& trial, Rows& rows);        // checks that steps do not change the samples
void judge_ending(const Trial& trial, Rows& rows);      // checks the training state after Strategy::finish()

// Checks the gradients of the scenario `perturbed`, in which one replica has another sample.
void judge_perturbation(const Trial& trial, Rows& rows);

// The judges of a single run of a scenario, in order of execution. The scenarios `unwatched`, `other-state` and
// `perturbed` have judges of their own instead, and judge_types().
inline constexpr Judge judges[] = {judge_start,   judge_outputs,    judge_gradients,  judge_replay,  judge_accuracy,
                                   judge_strides, judge_unused,     judge_agreement,  judge_buffers, judge_optimizer,
                                   judge_poison,  judge_evaluation, judge_reductions, judge_traffic, judge_types,
                                   judge_memory,  judge_learning,   judge_rows,       judge_ending};

// The floating-point reductions that rank 0 called in a run's last step (their number and bytes), and the parameters
// that this step used.
struct ReductionCount {
  int64_t count = 0, bytes = 0;
  std::vector<bool> used = {};
};
ReductionCount count_reductions(const Trial& trial);

// Compares the number and bytes of the reductions of two steps: `once` with one micro-batch, and the last step of
// `accumulated` with several. A strategy must reduce after the last micro-batch only, unless it declares
// reduces_each_micro_batch.
void judge_collective_count(const ReductionCount& once, const Trial& accumulated, Rows& rows);
// Compares two runs of the same steps. promised: true if the strategy declares that they give the same bits.
void judge_repeat(const std::vector<Evidence>& first, const std::vector<Evidence>& second, bool promised, Rows& rows);
// Compares a world of 1 with the single-device baseline.
void judge_same_bits_as_baseline(const Evidence& found, const Evidence& baseline, Rows& rows);

}  // namespace dpbench
