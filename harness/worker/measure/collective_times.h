// The collectives of a profile: how many a step calls, how long they take, and how long a rank waits in them for other
// ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "harness/report/figures/spans.h"
#include "harness/report/record/case.h"
#include "harness/worker/measure/collective_watch.h"
#include "strategies/api/mesh.h"

namespace dpbench {

inline int64_t ns_of(Phases::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// The times of the profiled steps on this rank, in nanoseconds of the clock that times the phases of a step.
struct StepTimes {
  std::vector<int64_t> begins = {};
  Spans blocked = {};  // spans in which the thread that runs the steps was in the communication phase
};

// Fills the record's figures of the collectives that this rank called in the profiled steps, and moves the time that it
// waited in them for other ranks from the phase `communication` to the phase `waiting`. mesh: the case's mesh, with
// process groups that do not log this function's own collectives. common_clock: all ranks share a clock. Collective:
// every rank must call it.
void describe_collectives(const std::deque<CollectiveLog::Call>& seen, const StepTimes& times, const Mesh& mesh,
                          at::Device device, bool common_clock, RankRecord& record);

}  // namespace dpbench
