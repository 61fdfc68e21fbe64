// Chooses the samples of the scenario `unwatched`: shuffled epochs with a short last batch, assigned to ranks as in a
// timed run.
#pragma once

#include <vector>

#include "harness/conform/scenario/scenario.h"

namespace dpbench {

// Returns the sample ids of each micro-batch of a step for `owner` (a rank, or 0 for one process). The steps cover
// two epochs if there are enough samples, otherwise more than two.
std::vector<at::Tensor> epoch_ids(const Scenario& scenario, const Distribution& distribution, uint64_t seed,
                                  int64_t step, int owner);

}  // namespace dpbench
