// How a process with several replicas cuts a batch: the tables that torch.chunk gives.
#pragma once

#include "harness/conform/suite.h"

namespace dpbench {

// chunk-tables: only for strategies of replicas.
void judge_layout(const CheckRequest& request, Rows& rows);

}  // namespace dpbench
