// Loads the samples of every timed step for one process, which is either one rank or the only process of a case.
#pragma once

#include <span>
#include <vector>

#include "harness/report/record/case.h"
#include "strategies/api/strategy.h"

namespace dpbench {

class StepSource {
 public:
  // Throws UsageError if the batch is too large for the data set or too small for the world. device: where a small
  // epoch is cached, if the strategy uses exactly one device per process.
  StepSource(const Workload& workload, const CaseSpec& spec, const StrategyInfo& strategy, int rank,
             at::Device device = at::kCPU);

  int64_t steps_per_epoch() const { return static_cast<int64_t>(ids_.size()); }
  // Generates or unpacks the samples of `count` steps, from step `first_step` on, in advance, outside the timed blocks.
  void prepare(int64_t first_step, int64_t count) const;
  // Returns the micro-batches of a step; they are valid until the next call. Every epoch has the same order of samples.
  // Batches are on the host, but those of a small, cached epoch are on the constructor's `device` if the strategy uses
  // exactly one device per process.
  std::span<const Batch> at(int64_t step);
  // Returns the sample ids of each micro-batch of a step.
  const std::vector<at::Tensor>& ids(int64_t step) const { return ids_[static_cast<size_t>(step % steps_per_epoch())]; }
  // Returns the number of samples over all ranks in steps first_step .. first_step + count - 1.
  int64_t samples(int64_t first_step, int64_t count) const;

 private:
  std::vector<Batch> load(const std::vector<at::Tensor>& micros) const;
  void move_cache_to(at::Device device);

  const Workload& workload_;
  bool ids_only_;  // true: batches hold sample ids only, because the strategy loads the samples itself
  std::vector<std::vector<at::Tensor>> ids_;  // sample ids, indexed by [step of the epoch][micro-batch]
  std::vector<int64_t> global_samples_;
  std::vector<std::vector<Batch>> cached_;  // all batches of a small epoch; empty for a large one
  std::vector<Batch> current_;
};

// Returns the steps of an epoch to run before timing, so that a strategy that records steps (e.g. in a CUDA graph) and
// replays them has recorded every batch size. Equal on every rank. Empty for other strategies.
std::vector<int64_t> recording_steps(const CaseSpec& spec, const StepSource& source);

}  // namespace dpbench
