// Checks of the distribution of samples: how a strategy splits a batch between replicas, and how the sampler assigns
// samples to ranks.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/suite.h"

namespace dpbench {

inline const std::vector<std::string> distribution_checks = {"chunk-tables"},
                                      sampler_checks = {"data-each-once", "epoch-order"};

// Runs the check chunk-tables: a strategy that runs several replicas in a single process must split a batch as
// torch.chunk does. A no-op unless the strategy has Parallelism::replicas.
void judge_distribution(const CheckRequest& request, Rows& rows);

// Runs the checks data-each-once and epoch-order on DistributedSampler, the sampler of all strategies. A no-op unless
// the strategy has Parallelism::ranks.
void judge_sampler(const CheckRequest& request, Rows& rows);

}  // namespace dpbench
