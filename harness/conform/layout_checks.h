// Where the rows go: how a process with several replicas cuts a batch, and what deals out the samples to ranks.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/suite.h"

namespace dpbench {

inline const std::vector<std::string> layout_checks = {"chunk-tables"},
                                      sampler_checks = {"data-each-once", "epoch-order"};

// Only for strategies of replicas.
void judge_layout(const CheckRequest& request, Rows& rows);

// Only for strategies of ranks; of the sampler that deals to all of them here.
void judge_sampler(const CheckRequest& request, Rows& rows);

}  // namespace dpbench
