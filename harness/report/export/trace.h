// Merges the ranks' traces into one for Perfetto and chrome://tracing.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

// Returns the common prefix of a case's trace files. Rank 0's file adds ".rank0.json".
std::string trace_stem(const std::string& case_id);

// ranks[i]: the Chrome trace that Kineto wrote for rank i. Each rank becomes a process, followed by its GPUs.
Json merged_trace(const std::vector<Json>& ranks);

}  // namespace dpbench
