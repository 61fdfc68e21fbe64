// Merges the Kineto traces of all ranks into one trace file for Perfetto and chrome://tracing.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

// Returns the common prefix of a case's trace file names. Rank 0's file name is this prefix plus ".rank0.json".
std::string trace_stem(const std::string& case_id);

// Returns one Chrome trace merged from ranks[i], the trace that Kineto wrote for rank i. Each rank is shown as a
// process, followed by its GPUs.
Json merged_trace(const std::vector<Json>& ranks);

}  // namespace dpbench
