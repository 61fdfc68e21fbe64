// Detects steps that some ranks would record as a CUDA graph while others replay one, which NCCL does not allow.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "workloads/api/workload.h"

namespace dpbench {

// The ranks' sample counts in a step differ by at most one. So if this rank's count is new but differs by one from an
// earlier step's, another rank may have had the same count in both steps, and would replay.
class ReplayedSizes {
 public:
  explicit ReplayedSizes(std::string owner) : owner_(std::move(owner)) {}

  // Throws if another rank may replay a step that this rank records.
  void require_unambiguous(int64_t step, std::span<const Batch> micro);

 private:
  std::string owner_;         // the strategy's name
  std::set<int64_t> counts_;  // this rank's sample counts in all steps so far
};

}  // namespace dpbench
