// The rows of every step, for the one process of a case or for one of its ranks.
#pragma once

#include <span>
#include <vector>

#include "harness/report/record/case.h"
#include "strategies/api/strategy.h"

namespace dpbench {

class StepSource {
 public:
  // device: where a strategy with one device has it. Throws UsageError when the batch does not fit the data or the
  // world.
  StepSource(const Workload& workload, const CaseSpec& spec, const StrategyInfo& strategy, int rank,
             at::Device device = at::kCPU);

  int64_t steps_per_epoch() const { return static_cast<int64_t>(ids_.size()); }
  // Makes the rows of these steps quick to get. Never timed.
  void prepare(int64_t first_step, int64_t count) const;
  // The micro-batches of this step; valid until the next call. Epoch after epoch in the same order. On the host; those
  // of a small epoch on the device of a strategy that has one.
  std::span<const Batch> at(int64_t step);
  // Rows of all ranks together in steps first .. first + count - 1.
  int64_t rows(int64_t first_step, int64_t count) const;

 private:
  std::vector<Batch> load(const std::vector<at::Tensor>& micros) const;
  void keep_on(at::Device device);

  const Workload& workload_;
  bool ids_alone_;                            // the strategy gets the rows itself
  std::vector<std::vector<at::Tensor>> ids_;  // of each step of an epoch, of each of its micro-batches
  std::vector<int64_t> global_rows_;
  std::vector<std::vector<Batch>> cut_;  // a small epoch is cut once and kept
  std::vector<Batch> current_;
};

// The steps in which a strategy that records its steps does so, to be taken before anything is timed: which steps of an
// epoch, in this order, until steps of every number of rows are replayed. The same on every rank. None for a strategy
// that records nothing.
std::vector<int64_t> recording_steps(const CaseSpec& spec, const StepSource& source);

}  // namespace dpbench
