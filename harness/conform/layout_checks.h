// Where the rows go: how a process with several replicas cuts a batch, and what deals out the samples to ranks.
#pragma once

#include "harness/conform/suite.h"

namespace dpbench {

// chunk-tables: only for strategies of replicas.
void judge_layout(const CheckRequest& request, Rows& rows);

// data-each-once, epoch-order: only for strategies of ranks; of the sampler that deals to all of them here.
void judge_sampler(const CheckRequest& request, Rows& rows);

}  // namespace dpbench
