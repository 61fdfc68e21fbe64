// The judges: pure functions that add rows for a trial. They do not run the strategy.
#pragma once

#include <vector>

#include "harness/conform/judges/rows.h"
#include "harness/conform/oracle/trial.h"

namespace dpbench {

using Judge = void (*)(const Trial& trial, Rows& rows);

// Allowed relative error of a float64 result: 15 times the largest error measured for correct strategies (6.6e-14).
inline constexpr double exact_bound = 1e-12;

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

// In order of execution.
inline constexpr Judge judges[] = {judge_start,      judge_outputs,   judge_gradients, judge_replay,
                                   judge_accuracy,   judge_strides,   judge_unused,    judge_agreement,
                                   judge_buffers,    judge_optimizer, judge_poison,    judge_evaluation,
                                   judge_reductions, judge_learning,  judge_rows,      judge_ending};

// The floating-point reductions in a trial's last step.
struct ReductionCount {
  int64_t count = 0, bytes = 0;
  bool operator==(const ReductionCount&) const = default;
};
ReductionCount count_reductions(const Trial& trial);

// Judges that compare two runs.
void judge_collective_count(const ReductionCount& once, const Trial& accumulated, Rows& rows);  // collective-count
void judge_repeat(const std::vector<Evidence>& first, const std::vector<Evidence>& second, bool promised,
                  Rows& rows);                                                                  // run-to-run
void judge_same_bits_as_baseline(const Evidence& found, const Evidence& baseline, Rows& rows);  // world-1-bits

}  // namespace dpbench
