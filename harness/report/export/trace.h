// One trace of all ranks, as Perfetto and chrome://tracing open it, from each rank's own.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

// What the files of a case begin with; a rank's own is this and ".rank0.json".
std::string trace_stem(const std::string& case_id);

// ranks[i]: Chrome's JSON as Kineto writes it for rank i. A process a rank; its GPUs' streams beside it.
Json merged_trace(const std::vector<Json>& ranks);

}  // namespace dpbench
