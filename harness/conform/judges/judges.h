// The judges: functions that verify the recorded results of one scenario and add rows to the result table. They do not
// run the strategy. A comment beside each judge names its checks.
#pragma once

#include <vector>

#include "harness/conform/judges/rows.h"
#include "harness/conform/oracle/trial.h"

namespace dpbench {

using Judge = void (*)(const Trial& trial, Rows& rows);

// Allowed relative error of a float64 result: 15 times the largest error (6.6e-14) measured for correct strategies.
inline constexpr double exact_bound = 1e-12;

// Runs the checks output-shape, output-dtype and loss-finite; in float64 also output-value and loss-value, in other
// dtypes output-replay and loss-replay.
void judge_outputs(const Trial& trial, Rows& rows);
void judge_start(const Trial& trial, Rows& rows);  // runs the check initial-broadcast
// For scenarios in float64: runs the gradient check that the scenario names, and gradient-vs-baseline if the scenario
// requests it.
void judge_gradients(const Trial& trial, Rows& rows);
// For scenarios in float32 or bfloat16: runs the gradient check that the scenario names, and gradient-exact for models
// with exact sums.
void judge_replay(const Trial& trial, Rows& rows);
// Runs the check gradient-accuracy, for models with softplus instead of ReLU.
void judge_accuracy(const Trial& trial, Rows& rows);
void judge_strides(const Trial& trial, Rows& rows);     // runs the check gradient-layout
void judge_unused(const Trial& trial, Rows& rows);      // runs the checks unused-parameters, frozen-parameters
void judge_agreement(const Trial& trial, Rows& rows);   // runs the checks ranks-agree-gradients, -parameters, -state
void judge_buffers(const Trial& trial, Rows& rows);     // runs the checks buffers, buffers-replay
void judge_optimizer(const Trial& trial, Rows& rows);   // runs the check optimizer-replay
void judge_poison(const Trial& trial, Rows& rows);      // runs the checks non-finite, non-finite-skipped
void judge_evaluation(const Trial& trial, Rows& rows);  // runs the checks evaluation, evaluation-replay
void judge_reductions(const Trial& trial, Rows& rows);  // runs the checks reduction, reduction-agrees, collective-order
void judge_traffic(const Trial& trial, Rows& rows);     // runs the check collective-bytes
void judge_memory(const Trial& trial, Rows& rows);      // runs the check live-parameters
void judge_learning(const Trial& trial, Rows& rows);    // runs the check loss-falls
void judge_rows(const Trial& trial, Rows& rows);        // runs the check rows-untouched
void judge_ending(const Trial& trial, Rows& rows);      // runs the check finish

// All judges that check a single run, in order of execution.
inline constexpr Judge judges[] = {judge_start,    judge_outputs,    judge_gradients,  judge_replay,  judge_accuracy,
                                   judge_strides,  judge_unused,     judge_agreement,  judge_buffers, judge_optimizer,
                                   judge_poison,   judge_evaluation, judge_reductions, judge_traffic, judge_memory,
                                   judge_learning, judge_rows,       judge_ending};

// Number and size of the floating-point reductions in a run's last step, and which parameters that step used.
struct ReductionCount {
  int64_t count = 0, bytes = 0;
  std::vector<bool> used = {};
};
ReductionCount count_reductions(const Trial& trial);

// Runs the check collective-count, which compares a step without micro-batches with a step that has several.
void judge_collective_count(const ReductionCount& once, const Trial& accumulated, Rows& rows);
void judge_repeat(const std::vector<Evidence>& first, const std::vector<Evidence>& second, bool promised,
                  Rows& rows);  // runs the check run-to-run, which compares two runs
// Runs the check world-1-bits, which compares a world of 1 with the single-device baseline.
void judge_same_bits_as_baseline(const Evidence& found, const Evidence& baseline, Rows& rows);

}  // namespace dpbench
