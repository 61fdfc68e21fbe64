// Accuracy on a workload's test rows, each counted once however many ranks share them.
#pragma once

#include "harness/worker/group.h"
#include "harness/worker/pulse.h"
#include "strategies/strategy.h"

namespace dpbench {

struct Accuracy {
  int64_t right = 0, rows = 0;
  double share() const { return static_cast<double>(right) / static_cast<double>(rows); }
};

// Throws UsageError when the workload has no test rows or no classes.
void require_classes(const Workload& workload, const std::string& name);

// Collective. Every rank judges with rank 0's buffers.
Accuracy evaluate(Strategy& strategy, const Workload& workload, const Group& group, Pulse& pulse);

}  // namespace dpbench
