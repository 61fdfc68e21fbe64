// Merges the Kineto traces of all ranks into one trace file for Perfetto and chrome://tracing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

// Returns the common prefix of a case's trace file names. Rank 0's file name is this prefix plus ".rank0.json".
std::string trace_stem(const std::string& case_id);

// A collective of one rank, from its call to its end. Times are nanoseconds since 1970.
struct TracedCollective {
  std::string op, axis;
  int64_t bytes = 0, from_ns = 0, until_ns = 0;
};

// Adds collectives to the trace that Kineto wrote for a rank. The viewer shows them in rows of their own, so overlap
// with computation is visible. Collectives that are in progress at the same time get different rows.
void add_collectives(Json& trace, int64_t process_id, const std::vector<TracedCollective>& collectives);

// Merges the ranks' traces into one Chrome trace; ranks[i] is the trace that Kineto wrote for rank i. The viewer shows
// each rank as a process, followed by the rank's GPUs.
Json merged_trace(const std::vector<Json>& ranks);

}  // namespace dpbench
