// Merges the Kineto traces of all ranks into one trace file for Perfetto and chrome://tracing.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

// Returns the common prefix of a case's trace file names. Rank 0's file name is this prefix plus ".rank0.json".
std::string trace_stem(const std::string& case_id);

// Merges the ranks' traces into one Chrome trace; ranks[i] is the trace that Kineto wrote for rank i. The viewer shows
// each rank as a process, followed by the rank's GPUs.
Json merged_trace(const std::vector<Json>& ranks);

}  // namespace dpbench
