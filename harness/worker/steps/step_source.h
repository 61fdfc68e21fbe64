// Loads the samples of every step for one process: the only process of a case or one of its ranks.
#pragma once

#include <span>
#include <vector>

#include "harness/report/record/case.h"
#include "strategies/api/strategy.h"

namespace dpbench {

class StepSource {
 public:
  // device: the strategy's device if it has exactly one. Throws UsageError if the batch does not fit the data or the
  // world.
  StepSource(const Workload& workload, const CaseSpec& spec, const StrategyInfo& strategy, int rank,
             at::Device device = at::kCPU);

  int64_t steps_per_epoch() const { return static_cast<int64_t>(ids_.size()); }
  // Prepares the samples of these steps for fast access. Never timed.
  void prepare(int64_t first_step, int64_t count) const;
  // Returns the micro-batches of a step; valid until the next call. Every epoch has the same order. Batches are on the
  // host; a small epoch is on the device if the strategy has a single one.
  std::span<const Batch> at(int64_t step);
  // Number of samples over all ranks in steps first .. first + count - 1.
  int64_t rows(int64_t first_step, int64_t count) const;

 private:
  std::vector<Batch> load(const std::vector<at::Tensor>& micros) const;
  void move_cache_to(at::Device device);

  const Workload& workload_;
  bool ids_only_;                             // the strategy loads the samples itself
  std::vector<std::vector<at::Tensor>> ids_;  // [step of the epoch][micro-batch]
  std::vector<int64_t> global_rows_;
  std::vector<std::vector<Batch>> cached_;  // all batches of a small epoch
  std::vector<Batch> current_;
};

// Returns the steps of an epoch to run before timing so that a recording strategy replays every batch size afterwards.
// Equal on every rank. Empty for a strategy that does not record steps.
std::vector<int64_t> recording_steps(const CaseSpec& spec, const StepSource& source);

}  // namespace dpbench
