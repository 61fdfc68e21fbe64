// Counts the loss terms of every rank, and the samples of this rank, in a step of the strategy ddp.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench::ddp {

// Returns the number of loss terms of each rank in the step (one per sample, unless the workload has several), summed
// over its micro-batches. Collective: one small allreduce.
std::vector<int64_t> terms_of_ranks(c10d::ProcessGroup& group, const Workload& workload, std::span<const Batch> micro,
                                    at::Device device);

int64_t total(const std::vector<int64_t>& terms);
int64_t active_ranks(const std::vector<int64_t>& terms);
int first_active(const std::vector<int64_t>& terms);  // Returns the first rank that has samples; 0 if no rank has any.

// Detects steps that some ranks would record as a CUDA graph while others replay one, which NCCL does not allow. The
// ranks' sample counts in a step differ by at most one. So if this rank's count is new but differs by one from an
// earlier step's, another rank may have had the same count in both steps, and would replay.
class ReplayedRows {
 public:
  // Throws if another rank may replay a step that this rank records.
  void require_unambiguous(int64_t step, std::span<const Batch> micro);

 private:
  std::set<int64_t> counts_;  // this rank's sample counts in all steps so far
};

}  // namespace dpbench::ddp
