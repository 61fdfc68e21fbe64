// Counts the loss terms of every rank in a step of the strategy ddp.
#pragma once

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

}  // namespace dpbench::ddp
