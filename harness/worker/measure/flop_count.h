// Floating-point operations: a multiplication and an addition for every term of a matrix product or convolution,
// forward and backward, by the shapes they are called with. Everything else counts as nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <ATen/record_function.h>

#include "strategies/api/phases.h"
#include "workloads/api/workload.h"

namespace dpbench {

// Of all threads, as long as it lives.
class FlopCount {
 public:
  FlopCount();
  ~FlopCount();
  FlopCount(const FlopCount&) = delete;
  FlopCount& operator=(const FlopCount&) = delete;

  // Since the constructor; one counter at a time.
  int64_t flop() const;

 private:
  at::CallbackHandle handle_;
};

// The operations of each step. A replayed step calls nothing that could be counted: it has those of the first step of
// the same shape, which was not replayed. Must be a listener of the phases, by which it knows replayed steps.
class StepFlop : public PhaseListener {
 public:
  // Around each step.
  void begin();
  void end(std::span<const Batch> micro);
  // Of the last so many steps. Nothing: they called nothing that counts, or one was replayed whose shape never ran as
  // it is.
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
