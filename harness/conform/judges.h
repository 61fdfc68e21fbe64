// The judges: pure functions from a trial to rows. None of them runs a strategy.
#pragma once

#include "harness/conform/rows.h"
#include "harness/conform/trial.h"

namespace dpbench {

using Judge = void (*)(const Trial& trial, Rows& rows);

// How far a float64 result may lie from the oracle: 15 times the worst measured of right strategies (6.6e-14).
inline constexpr double exact_bound = 1e-12;

void judge_finished(const Trial& trial, Rows& rows);    // run-completes
// output-shape, output-dtype, loss-finite; output-value, loss-value; output-replay, loss-replay
void judge_outputs(const Trial& trial, Rows& rows);
void judge_start(const Trial& trial, Rows& rows);       // initial-broadcast
void judge_gradients(const Trial& trial, Rows& rows);   // the scenario's gradient check, gradient-vs-baseline
void judge_replay(const Trial& trial, Rows& rows);      // the same in the working dtype; gradient-exact
void judge_accuracy(const Trial& trial, Rows& rows);    // gradient-accuracy, on smooth twins
void judge_strides(const Trial& trial, Rows& rows);     // gradient-layout
void judge_unused(const Trial& trial, Rows& rows);      // unused-parameters, frozen-parameters
void judge_agreement(const Trial& trial, Rows& rows);   // ranks-agree-gradients, -parameters, -state
void judge_buffers(const Trial& trial, Rows& rows);     // buffers, buffers-replay
void judge_optimizer(const Trial& trial, Rows& rows);   // optimizer-replay
void judge_poison(const Trial& trial, Rows& rows);      // non-finite, non-finite-skipped
void judge_evaluation(const Trial& trial, Rows& rows);  // evaluation, evaluation-replay
void judge_reductions(const Trial& trial, Rows& rows);  // reduction
void judge_learning(const Trial& trial, Rows& rows);    // loss-falls
void judge_rows(const Trial& trial, Rows& rows);        // rows-untouched
void judge_ending(const Trial& trial, Rows& rows);      // finish

// Of two trials that differ in one thing.
void judge_collective_count(const Trial& once, const Trial& accumulated, Rows& rows);  // collective-count
void judge_repeat(const Trial& first, const Trial& second, bool promised, Rows& rows);  // run-to-run
void judge_same_bits_as_baseline(const Trial& trial, const Evidence& baseline, Rows& rows);  // world-1-bits

}  // namespace dpbench
