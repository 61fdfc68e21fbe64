// Counts the floating-point operations (FLOP) of the steps of a training run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "strategies/api/phases.h"
#include "strategies/parts/flop_count.h"
#include "workloads/api/workload.h"

namespace dpbench {

// Counts the floating-point operations of each step. Some strategies record a step (e.g. in a CUDA graph) and replay it
// later. A replayed step dispatches no operations, so it gets the count of the first step with the same shapes that was
// executed normally. StepFlop must be registered as a listener of the phases, because it recognizes a replayed step by
// the phase `graph`.
class StepFlop : public PhaseListener {
 public:
  // Call begin() before and end() after each step.
  void begin();
  void end(std::span<const Batch> micro);
  // Returns the mean count of the last `steps` steps; nullopt if the count is zero, or if no step with the shapes of a
  // replayed one was executed normally.
  std::optional<int64_t> mean_of_last(int64_t steps) const;

  void entered(Phase phase, Time) override { replayed_ = replayed_ || phase == Phase::graph; }

 private:
  using Shape = std::vector<int64_t>;

  FlopCount count_;
  int64_t before_ = 0;
  bool replayed_ = false;
  std::map<Shape, int64_t> eager_;  // FLOP counts of steps that were not replayed, by input shapes
  std::vector<std::optional<int64_t>> steps_;
};

}  // namespace dpbench
