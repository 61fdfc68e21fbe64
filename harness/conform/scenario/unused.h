// Finds parameters that a model does not use on some or all ranks, before the strategy runs the model.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/scenario/drive.h"

namespace dpbench {

struct UnusedPattern {
  std::vector<std::string> names;  // parameters that at least one rank does not use in some step
  bool some_ranks = false;         // true if in some step one rank uses a parameter and another does not
};

UnusedPattern unused_pattern(const Bench& bench);

// True if every parameter gets a gradient in the first two steps of every rank. A quick test for large models.
bool first_steps_use_all(const Bench& bench);

// True if the set of used parameters differs between replicas, ranks or steps.
bool graph_changes(const Bench& bench);

}  // namespace dpbench
