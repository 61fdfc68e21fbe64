// How many rows every rank has in a step, and what follows from it: who takes part, and how much each one's loss
// counts.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench::ddp {

// rows[r]: of rank r, all its micro-batches together. Collective: one small allreduce.
std::vector<int64_t> rows_of_ranks(c10d::ProcessGroup& group, std::span<const Batch> micro, at::Device device);

int64_t total(const std::vector<int64_t>& rows);
int64_t active_ranks(const std::vector<int64_t>& rows);
int first_active(const std::vector<int64_t>& rows);  // 0 if none is

// NCCL's ranks must record and replay together. The rows of a step are dealt out in turn: where this rank's are one
// more or fewer than in another step, another rank's may be as many as there.
class ReplayedRows {
 public:
  // Throws where another rank may replay a step that this one does not.
  void require_own(int64_t step, std::span<const Batch> micro);

 private:
  std::set<int64_t> counts_;  // that this rank had in a step
};

}  // namespace dpbench::ddp
