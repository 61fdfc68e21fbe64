// Floating-point operations of steps of which some may be recorded ones: what is replayed calls nothing that could be counted, so it
// has those of the first step of the same shape, which ran as it is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "harness/worker/flop_count.h"
#include "strategies/phases.h"
#include "workloads/workload.h"

namespace dpbench {

// Must hear the parts of each step: by them it knows what was replayed.
class StepFlop : public PhaseListener {
 public:
  // Around each step.
  void begin();
  void end(std::span<const Batch> micro);
  // Of the last so many steps. Nothing: they called nothing that counts, or one was replayed whose shape never ran as it is.
  std::optional<int64_t> mean_of_last(int64_t steps) const;

  void entered(Phase phase, Time) override { replayed_ = replayed_ || phase == Phase::graph; }

 private:
  using Shape = std::vector<int64_t>;

  FlopCount count_;
  int64_t before_ = 0;
  bool replayed_ = false;
  std::map<Shape, int64_t> as_it_is_;
  std::vector<std::optional<int64_t>> steps_;
};

}  // namespace dpbench
