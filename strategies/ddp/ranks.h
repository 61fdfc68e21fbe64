// How many rows every rank has in a step, and what follows from it: who takes part, and how much each one's loss counts.
#pragma once

#include <span>

#include "strategies/strategy.h"

namespace dpbench::ddp {

// rows[r]: of rank r, all its micro-batches together. Collective: one small allreduce.
std::vector<int64_t> rows_of_ranks(c10d::ProcessGroup& group, std::span<const Batch> micro, at::Device device);

int64_t total(const std::vector<int64_t>& rows);
int64_t active_ranks(const std::vector<int64_t>& rows);
int first_active(const std::vector<int64_t>& rows);  // 0 if none is

}  // namespace dpbench::ddp
