// Finds parameters that a model does not use on some or all ranks, before the strategy runs the model.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/scenario/drive.h"

namespace dpbench {

struct UnusedPattern {
  std::vector<std::string> names;  // unused by at least one rank in some step
  bool some_ranks = false;         // another rank uses one of them in the same step
};

UnusedPattern unused_pattern(const Bench& bench);

// True if every parameter gets a gradient in the first steps of every rank. A quick test for large models.
bool first_steps_use_all(const Bench& bench);

// True if the set of used parameters differs between replicas, ranks or steps.
bool graph_changes(const Bench& bench);

}  // namespace dpbench
