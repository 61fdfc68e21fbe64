// The table of a model's parameters as JSON, which `dpbench list WORKLOAD --parameters` prints.
#pragma once

#include <string>

#include "harness/report/record/protocol.h"

namespace dpbench {

// Number of ranks for which the table gives the placement under tensor and expert parallelism.
inline constexpr int ranks_of_placement = 2;

// Returns a row for each parameter of a workload's model: its name, its sizes, the names of the blocks that use it, its
// unit under fsdp, and its placement under tensor parallelism (tp) and expert parallelism (ep); null: the model is not
// divided in this way.
// model: value of the flag --model; empty: the workload's default. Throws UsageError for an unknown workload or model.
Json parameters_json(const std::string& workload, const std::string& model);

}  // namespace dpbench
