// Times blocks of steps: a barrier before each, none inside.
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

  // Nanoseconds of `count` steps between barriers; the clock of every step goes to `readings`.
  int64_t block(int64_t count, std::vector<int64_t>* readings = nullptr);
  // The same, untimed: the loss of each step is looked at.
  void watched_block(int64_t count);
  // These steps of an epoch beside those that come in turn, untimed and looked at as well.
  void beside(const std::vector<int64_t>& steps);
  // Throws std::domain_error where the last step's loss is not finite.
  double last_loss() const;
  // The index of the next step.
  int64_t step_index() const { return step_; }

  Phases phases;

 private:
  void watched(int64_t step);
  double require_number(int64_t step, const char* since) const;

  Strategy& strategy_;
  StepSource& source_;
  const Group& group_;
  Pulse& pulse_;
  StepResult result_;
  int64_t step_ = 0;
};

// As many steps as the shortest sample may take; whole epochs where they are short, so that samples are alike.
int64_t steps_for(double step_ns, const Sampling& sampling, int64_t steps_per_epoch);

}  // namespace dpbench
