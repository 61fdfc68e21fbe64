// Times blocks of training steps. A barrier of all ranks precedes each block; there is none inside a block. buffers()
// is called after each block: a step may end in a thread of the strategy, and the accessors wait for its collectives,
// which must not meet the harness's own.
#pragma once

#include <chrono>
#include <vector>

#include "harness/worker/rank/group.h"
#include "harness/worker/rank/pulse.h"
#include "harness/worker/steps/step_source.h"
#include "strategies/api/strategy.h"

namespace dpbench {

class StepTimer {
 public:
  StepTimer(Strategy& strategy, StepSource& source, const Group& group, Pulse& pulse)
      : strategy_(strategy), source_(source), group_(group), pulse_(pulse) {
    pulse_.publish_actions(phases);
  }

  // Runs `untimed` steps and then `count` steps. Returns the time of the latter in nanoseconds, with the wait for a
  // step that ends in a thread, and appends each step's time to `readings`.
  int64_t block(int64_t count, std::vector<int64_t>* readings = nullptr, int64_t untimed = 0);
  // Runs `count` steps untimed and throws std::domain_error if a loss is not finite.
  void checked_block(int64_t count);
  // Runs the given steps of an epoch, in any order and untimed. Throws std::domain_error if a loss is not finite. These
  // steps update the parameters but do not advance step_index().
  void run_extra(const std::vector<int64_t>& steps);
  // Returns the last step's loss. Throws std::domain_error if it is not finite.
  double last_loss() const;
  const StepResult& result() const { return result_; }
  // Returns the number of steps run so far, without those of run_extra(); it is the index of the next step.
  int64_t step_index() const { return step_; }

  Phases phases;

 private:
  void next_step();
  void checked_step(int64_t step);
  double require_number(int64_t step, const char* since) const;

  Strategy& strategy_;
  StepSource& source_;
  const Group& group_;
  Pulse& pulse_;
  StepResult result_;
  int64_t step_ = 0;
};

// Returns the number of steps of a block: sampling.steps if that is set, else as many as last sampling.min_sample_s.
// The latter is rounded up to whole epochs if epochs are short, so that all blocks run the same steps.
int64_t steps_for(double step_ns, const Sampling& sampling, int64_t steps_per_epoch);

}  // namespace dpbench
