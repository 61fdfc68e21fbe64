// Times blocks of steps. A barrier precedes each block; there is none inside.
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
      : strategy_(strategy), source_(source), group_(group), pulse_(pulse) {}

  // Runs `count` steps. Returns their time in nanoseconds; appends the time of each step to `readings`.
  int64_t block(int64_t count, std::vector<int64_t>* readings = nullptr);
  // Runs `count` steps untimed and checks the loss of each.
  void checked_block(int64_t count);
  // Runs these steps of an epoch out of order, untimed, and checks the loss of each. step_index() does not change.
  void run_extra(const std::vector<int64_t>& steps);
  // Returns the last step's loss. Throws std::domain_error if it is not finite.
  double last_loss() const;
  // The index of the next step.
  int64_t step_index() const { return step_; }

  Phases phases;

 private:
  void checked_step(int64_t step);
  double require_number(int64_t step, const char* since) const;

  Strategy& strategy_;
  StepSource& source_;
  const Group& group_;
  Pulse& pulse_;
  StepResult result_;
  int64_t step_ = 0;
};

// Returns the number of steps of a block from the minimum block time. Short epochs are rounded up to whole ones, so
// that all blocks run the same steps.
int64_t steps_for(double step_ns, const Sampling& sampling, int64_t steps_per_epoch);

}  // namespace dpbench
