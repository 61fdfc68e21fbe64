// The number of samples of every rank in a step.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench::ddp {

// Collective (one small allreduce). Returns the samples of each rank, summed over its micro-batches.
std::vector<int64_t> rows_of_ranks(c10d::ProcessGroup& group, std::span<const Batch> micro, at::Device device);

int64_t total(const std::vector<int64_t>& rows);
int64_t active_ranks(const std::vector<int64_t>& rows);
int first_active(const std::vector<int64_t>& rows);  // 0 if no rank is active

// Detects steps that some ranks would record while others replay, which NCCL does not allow. Samples are dealt out in
// turn, so ranks differ by at most one: if this rank's count differs by one from an earlier step's, another rank may
// have the same count in both.
class ReplayedRows {
 public:
  // Throws if another rank may replay a step that this rank records.
  void require_unambiguous(int64_t step, std::span<const Batch> micro);

 private:
  std::set<int64_t> counts_;  // sample counts of this rank's steps so far
};

}  // namespace dpbench::ddp
